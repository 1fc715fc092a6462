"""GPU names, masks and memory: tables, no GPU needed."""

import pytest

from grail_cli.errors import GrailError
from grail_cli.serving import devices
from grail_cli.serving.devices import Gpu, check_memory, select, split_names, visible_names

FOUR = [Gpu(str(index), f"GPU-{index}aaa", 81920, 80000) for index in range(4)]
MIG = "MIG-3f1c2b7e-9d57-5c31-8a05-1d2ccd6c9f10"


@pytest.mark.parametrize("names, items",
                         [("0,1", ["0", "1"]), (" 2 , 3", ["2", "3"]), ("", []), ("-1", []), (MIG, [MIG])])
def test_names_are_split_and_nothing_means_no_gpu(names, items):
    assert split_names(names) == items


@pytest.mark.parametrize("gpus, count, outer, chosen", [
    (None, 1, None, ["0"]),  # one GPU unless asked for more
    (None, 2, "4,6", ["4", "6"]),
    ("1", 1, "4,6", ["6"]),  # numbers count within the outer mask
    ("1,0", 2, "4,6", ["6", "4"]),
    ("2,3", 2, None, ["2", "3"]),
    (MIG, 1, None, [MIG]), ("GPU-2aaa", 1, "4,6", ["GPU-2aaa"])])
def test_the_gpus_of_a_server(gpus, count, outer, chosen):
    assert select(gpus, count, visible_names(FOUR, outer)) == chosen


@pytest.mark.parametrize("gpus, count, outer, words", [
    ("2", 1, "4,6", r"no GPU 2; visible: 0 \(4\), 1 \(6\)"), ("0", 1, "", "no GPU 0; visible: none"),
    (None, 1, "-1", "0 of 0 are left"), (None, 8, None, "8 GPUs a server are asked for, 4 of 4"),
    ("0,1", 4, None, "leaves 2")])
def test_gpus_that_are_not_there_are_refused_with_what_is(gpus, count, outer, words):
    with pytest.raises(GrailError, match=words):
        select(gpus, count, visible_names(FOUR, outer))


def test_several_servers_of_one_command_share_the_gpus_out_in_order():
    visible = visible_names(FOUR, None)
    assert [select(None, 2, visible, offset=offset) for offset in (0, 2)] == [["0", "1"], ["2", "3"]]
    assert [select("3,1", 1, visible, offset=offset) for offset in (0, 1)] == [["3"], ["1"]]
    with pytest.raises(GrailError, match="0 of 4 are left"):
        select(None, 1, visible, offset=4)


def test_too_little_free_memory_is_refused_with_the_share_that_fits(monkeypatch):
    monkeypatch.setattr(devices, "nvidia_smi", lambda *query: [["GPU-1aaa", "999999", "30720"]])
    gpus = [FOUR[0], Gpu("1", "GPU-1aaa", 81920, 50000)]
    assert check_memory(["0"], gpus, 0.9) == []
    (fault,) = check_memory(["1"], gpus, 0.9)
    assert "48.8 of 80.0 GiB free; 0.9 of all (72.0 GiB) is asked for; held by pid 999999 (gone, 30.0 GiB)" in fault.message
    assert "serve.gpu_memory_utilization=0.59" in fault.hint


def test_a_mig_slice_is_not_compared_with_the_whole_gpu():
    assert check_memory([MIG], [Gpu("0", "GPU-x", 81920, 10)], 0.9) == []


def test_rows_of_nvidia_smi_are_read(tmp_path, monkeypatch):
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\necho '0, GPU-1234, 143771, 143216'\necho '1, GPU-99, [N/A], [N/A]'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert devices.present_gpus() == [Gpu("0", "GPU-1234", 143771, 143216)]
    assert devices.used_mib(["0"]) == 555 and devices.used_mib(["GPU-12"]) == 555


def test_without_nvidia_smi_there_are_no_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert devices.present_gpus() == []
