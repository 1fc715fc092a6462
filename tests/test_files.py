"""Files are whole or absent, torn lines are never data, and one folder has one writer."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from grail_cli import files
from grail_cli.errors import GrailError


def test_a_file_is_replaced_whole_and_leaves_nothing_beside(tmp_path):
    target = tmp_path / "sub" / "a.json"
    files.write_json(target, {"a": 1})
    files.write_json(target, {"a": 2})
    assert files.read_json(target) == {"a": 2}
    assert [path.name for path in target.parent.iterdir()] == ["a.json"]


def test_a_failed_write_keeps_the_old_file(tmp_path):
    target = tmp_path / "a.json"
    files.write_json(target, {"a": 1})
    with pytest.raises(ValueError):
        files.write_json(target, {"a": float("nan")})
    assert files.read_json(target) == {"a": 1}


def test_kills_in_the_middle_of_writing_leave_the_old_or_the_new_file(tmp_path):
    target = tmp_path / "big.json"
    files.write_json(target, {"round": -1, "pad": "x" * 200_000})
    code = ("import sys; from grail_cli import files\n"
            "for i in range(10**6): files.write_json(sys.argv[1], {'round': i, 'pad': 'x' * 200_000})")
    for delay in (0.15, 0.2, 0.25, 0.31):
        process = subprocess.Popen([sys.executable, "-c", code, str(target)])
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(files.read_json(target)["pad"]) == 200_000


@pytest.mark.parametrize("tail, cut", [(b'{"a": 3', True), (b'{"a": 3}', False), (b"", False), (b"\xff\xfe", True)])
def test_a_torn_last_line_is_left_out_and_mended(tmp_path, tail, cut):
    path = tmp_path / "x.jsonl"
    files.append_jsonl(path, [{"a": 1}, {"a": 2}])
    with open(path, "ab") as file:
        file.write(tail)
    whole = [{"a": 1}, {"a": 2}] + ([{"a": 3}] if tail == b'{"a": 3}' else [])
    assert files.read_jsonl(path) == whole
    assert files.mend_jsonl(path) is cut
    files.append_jsonl(path, {"a": 9})
    assert files.read_jsonl(path) == [*whole, {"a": 9}]


def test_a_bad_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\nnonsense\n{"a": 2}\n')
    with pytest.raises(GrailError, match="line 2 is no JSON object") as caught:
        files.read_jsonl(path)
    assert caught.value.where == f"{path}:2"


def test_a_line_that_is_no_object_is_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("[1, 2]\n")
    with pytest.raises(GrailError, match="line 1 is a list"):
        files.read_jsonl(path)


def test_a_second_writer_is_refused_and_told_who_holds_the_folder(tmp_path):
    code = ("import sys, time; from grail_cli.files import FolderLock\n"
            "with FolderLock(sys.argv[1]): print('held', flush=True); time.sleep(60)")
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(GrailError, match=f"in use by pid {holder.pid}"):
            with files.FolderLock(tmp_path):
                pass
    finally:
        holder.kill()
        holder.wait()
    with files.FolderLock(tmp_path):  # a kill has released it
        assert f"pid {os.getpid()}" in (tmp_path / ".lock").read_text()


def test_hashes_are_those_of_sha256(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files.sha256_file(tmp_path / "a") == files.sha256_text("abc") == expected


def test_jsonl_lines_keep_their_characters(tmp_path):
    files.append_jsonl(tmp_path / "x.jsonl", {"t": "é\n\u2028"})
    assert json.loads((tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()[0].split("\u2028")[0] + '\u2028"}') \
        == {"t": "é\n\u2028"}
    assert files.read_jsonl(tmp_path / "x.jsonl") == [{"t": "é\n\u2028"}]
