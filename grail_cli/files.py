"""Files that appear whole or not at all, and JSON Lines that survive a kill at any moment.

A whole file is written beside its place, synced and renamed. A line of a `.jsonl` is written in one call and synced;
a torn last line, left by a kill, is cut off on resume and never read as data.
"""

import hashlib
import json
import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path

from .errors import GrailError


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file whole: beside its place, synced, renamed. Makes the folder when it is missing."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file whole, as UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: str | Path, obj: object) -> None:
    """Write one JSON document whole, indented, keys in the order given; NaN and infinity are refused."""
    write_text(path, json.dumps(obj, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | Path) -> object:
    """Read one JSON document. Raises GrailError when the file is missing or is no JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise GrailError("no such file.", where=str(path), kind="missing_file") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise GrailError(f"not a JSON document ({error}).", where=str(path), kind="bad_file") from None


def append_jsonl(path: str | Path, rows: dict | Iterable[dict]) -> None:
    """Append one object or several, a whole line each, in a single synced write."""
    rows = [rows] if isinstance(rows, dict) else list(rows)
    data = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows).encode("utf-8")
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view):]
        os.fsync(handle)
    finally:
        os.close(handle)


def read_jsonl(path: str | Path) -> list[dict]:
    """Read the objects of a JSON Lines file; a torn last line (no line end, no whole object) is left out.

    Raises GrailError naming file and line for anything else that is not an object.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise GrailError("no such file.", where=str(path), kind="missing_file") from None
    except IsADirectoryError:
        raise GrailError("a folder, where a JSON Lines file is needed.", where=str(path), kind="bad_file") from None
    lines = data.split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            if number == len(lines):  # no line end behind it: the writer was killed here
                break
            raise GrailError(f"line {number} is no JSON object ({error}).", where=f"{path}:{number}",
                             hint="mend or remove that line.", kind="bad_file") from None
        if not isinstance(row, dict):
            raise GrailError(f"line {number} is a {type(row).__name__}, where a JSON object is needed.",
                             where=f"{path}:{number}", kind="bad_file")
        rows.append(row)
    return rows


def mend_jsonl(path: str | Path) -> bool:
    """Cut a torn last line off; True when something was cut. A whole last object only gets its line end."""
    path = Path(path)
    if not path.exists():
        return False
    with open(path, "r+b") as file:
        data = file.read()
        if not data or data.endswith(b"\n"):
            return False
        start = data.rfind(b"\n") + 1
        try:
            whole = isinstance(json.loads(data[start:]), dict)
        except (json.JSONDecodeError, UnicodeDecodeError):
            whole = False
        if whole:
            file.write(b"\n")
        else:
            file.truncate(start)
        file.flush()
        os.fsync(file.fileno())
        return not whole


def sha256_file(path: str | Path) -> str:
    """The SHA-256 of a file, as 64 hex digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_text(text: str) -> str:
    """The SHA-256 of a text's UTF-8 bytes, as 64 hex digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def process_started(pid: int) -> float | None:
    """When a live process started (seconds since the epoch), or None; tells a reused pid from the one recorded."""
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None


class FolderLock:
    """One writer a folder: a context manager around `FOLDER/.lock`.

    Held through an advisory lock of the kernel, so that a kill releases it; the file names pid, host and start time
    for the message to whoever comes second. Raises GrailError when another process holds it.
    """

    def __init__(self, folder: str | Path):
        self.path = Path(folder) / ".lock"
        self._handle = None

    def __enter__(self) -> "FolderLock":
        import fcntl

        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = open(self.path, "a+", encoding="utf-8")
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._handle.seek(0)
            holder = self._handle.read().strip() or "another process"
            self._handle.close()
            raise GrailError(f"in use by {holder}.", where=str(self.path.parent), kind="locked",
                             hint="wait for it, stop it, or choose another --out.") from None
        self._handle.truncate(0)
        self._handle.write(f"pid {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        self._handle.flush()
        return self

    def __exit__(self, *exc) -> None:
        self._handle.truncate(0)
        self._handle.close()
