"""What `import` can be pointed at: pipes, packed files, whole directories, and what it refuses."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.adapters.folders import Folders
from mcp_memory.errors import UsageError
from mcp_memory.surfaces.sources import find_sources, laid_out
from tests.support import conversation
from tests.surfaces.shell import SCRIPT, Shell

posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes with names, devices and signals are POSIX's")
LINES = "".join(json.dumps(line) + "\n" for line in conversation())
COUNT = LINES.count("\n")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def fed(shell: Shell, text: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [str(SCRIPT), "import", *args, "--json"]
    return subprocess.run(command, env=shell.environment, input=text, capture_output=True, text=True, timeout=60)


def checkpoints(shell: Shell) -> int:
    with closing(sqlite3.connect(shell.home / "memory.db")) as connection:
        return int(connection.execute("SELECT count(*) FROM checkpoint").fetchone()[0])


def test_standard_input_is_imported_and_known_again(shell: Shell) -> None:
    first = json.loads(fed(shell, LINES, "-").stdout)
    assert (first["files"], first["events_new"]) == (1, COUNT)
    again = json.loads(fed(shell, LINES + "nonsense\n", "-", "--client", "jsonl").stdout)
    assert (again["events_new"], again["events_known"]) == (0, COUNT)
    assert [(bad["path"], bad["line"]) for bad in again["skipped"]] == [("-", COUNT + 1)]
    assert not checkpoints(shell)


def test_a_packed_file_is_imported_under_its_name(shell: Shell) -> None:
    path = shell.cwd / "talks.jsonl.gz"
    path.write_bytes(gzip.compress(LINES.encode() + b'{"session_id": "s"}\n'))
    done = shell.json("import", str(path))
    assert done["events_new"] == COUNT
    assert [bad["path"] for bad in done["skipped"]] == [str(path)]
    path.write_bytes(path.read_bytes()[:60])
    broken = shell.run("import", str(path))
    assert broken.returncode == 2
    assert "cannot be unpacked" in broken.stderr


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_in_the_encoding_of_powershell_is_read(shell: Shell, encoding: str) -> None:
    path = shell.cwd / "talks.jsonl"
    path.write_bytes(("\ufeff" + LINES.replace("\n", "\r\n")).encode(encoding))
    assert shell.json("import", str(path))["events_new"] == COUNT
    path.write_bytes(path.read_bytes() + b"\x00")
    assert "cannot be unpacked" in shell.run("import", str(path)).stderr


@posix
def test_a_pipe_is_read_to_its_end(shell: Shell) -> None:
    pipe = shell.cwd / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(LINES,))
    writer.start()
    assert shell.json("import", str(pipe))["events_new"] == COUNT
    writer.join()


@posix
def test_an_import_that_waits_for_a_pipe_can_be_interrupted(shell: Shell) -> None:
    command = [str(SCRIPT), "import", "-"]
    with subprocess.Popen(command, env=shell.environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not (shell.home / "memory.db-wal").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        # Its input stays open: what ends it is the signal.
        assert process.wait(30) == 1
        assert process.stderr is not None
        assert b"interrupted" in process.stderr.read()


def test_the_whole_disk_is_refused(tmp_path: Path) -> None:
    for place in (Path(tmp_path.anchor), tmp_path / "/".join([".."] * (len(tmp_path.parts) - 1))):
        with pytest.raises(UsageError, match="the whole disk"):
            find_sources(Folders(tmp_path), [str(place)], "auto")


@posix
def test_a_device_is_refused() -> None:
    with pytest.raises(UsageError, match="is a device"), laid_out(["/dev/zero"]):
        pass


def test_what_is_laid_out_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    packed = tmp_path / "talks.jsonl.gz"
    packed.write_bytes(gzip.compress(LINES.encode()))
    with laid_out([str(packed), str(tmp_path)]) as ([path, place], files):
        assert Path(path).name == "talks.jsonl"
        assert Path(path).read_text("utf-8") == LINES
        assert list(files.names.values()) == [str(packed)]
        if sys.platform != "win32":
            assert Path(path).parents[1].stat().st_mode & 0o077 == 0
        assert place == str(tmp_path)
    assert not Path(path).exists()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="a file without a name cannot be opened anew here")
def test_what_is_laid_out_has_no_name_that_a_kill_would_leave_behind(tmp_path: Path) -> None:
    packed = tmp_path / "talks.jsonl.gz"
    packed.write_bytes(gzip.compress(LINES.encode()))
    with laid_out([str(packed)]) as ([path], _):
        there = [entry for entry in Path(path).parents[1].rglob("*") if not entry.is_dir()]
        assert [(entry, entry.is_symlink()) for entry in there] == [(Path(path), True)]


@posix
def test_directories_that_lead_to_themselves_are_walked_once(tmp_path: Path) -> None:
    (tmp_path / "talks.jsonl").write_text(LINES)
    (tmp_path / "self").symlink_to(tmp_path)
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    (tmp_path / "session-1.json").write_text("{}")
    (tmp_path / "other.json").write_text("{}")
    sources, unknown = find_sources(Folders(tmp_path), [str(tmp_path)], "auto")
    assert [path for _, path in sources] == [tmp_path / "talks.jsonl"]
    assert unknown == []
