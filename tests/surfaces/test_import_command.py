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
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.clients.port import Folders
from mcp_memory.errors import UsageError
from mcp_memory.surfaces.import_command import find_sources, laid_out
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
    if not (shell.home / "inbox.db").exists():
        return 0
    with closing(sqlite3.connect(shell.home / "inbox.db")) as connection:
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
    with subprocess.Popen(
        command,
        env=shell.environment,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Who runs the tests in the background lets them ignore it.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
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
            looked_at(place)


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


def looked_at(place: Path, client: str = "auto") -> tuple[dict[str, str], dict[str, str]]:
    """Which client each file in a directory is of, and why the others are not read, by their names below it."""
    with laid_out([str(place)]) as (paths, files):
        sources, skipped = find_sources(Folders(place), paths, client, files)
        read = {files.names.get(path, str(path)): adapter.name for adapter, path in sources}
    reasons = {os.path.relpath(bad.path, place): bad.reason for bad in skipped}
    assert len(reasons) == len(skipped)
    return {os.path.relpath(name, place): client for name, client in read.items()}, reasons


def lines_of(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def claude(session: str, text: str) -> dict[str, Any]:
    fields = {"sessionId": session, "uuid": text, "timestamp": "2026-03-02T09:00:00Z", "cwd": "/home/ada/orchard"}
    return {"type": "user", **fields, "message": {"role": "user", "content": text}}


def gemini(session: str) -> dict[str, Any]:
    said = {"id": "m1", "timestamp": "2026-03-02T09:00:00Z", "type": "user", "content": "Count the figs."}
    return {"sessionId": session, "projectHash": "h", "startTime": "2026-03-02T09:00:00Z", "messages": [said]}


def codex(session: str) -> str:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count the plums."}]}
    return lines_of(
        {"timestamp": "2026-03-02T09:00:00Z", "type": "session_meta", "payload": {"id": session, "cwd": "/work"}},
        {"timestamp": "2026-03-02T09:00:01Z", "type": "response_item", "payload": item},
    )


def vscode(session: str) -> str:
    opened = {"sessionId": session, "vscodeVersion": "1.130.0", "context": {"cwd": "/work"}}
    said = {"content": "Count the quinces."}
    times = {"timestamp": "2026-03-02T09:00:00Z", "parentId": None}
    return lines_of(
        {"type": "session.start", "data": opened, "id": "a", **times},
        {"type": "user.message", "data": said, "id": "b", **times},
    )


SPECSTORY = "<!-- Generated by SpecStory -->\n\n_**User (2026-03-02 09:00Z)**_\n\nCount the medlars.\n"
CURSOR = lines_of({"role": "user", "message": {"content": [{"type": "text", "text": "Count the sloes."}]}})
#: Every form that can be read, under names as they come.
READABLE: dict[str, tuple[str, bytes]] = {
    "claude.jsonl": ("claude-code", lines_of(claude("c1", "Count the pears.")).encode()),
    "claude/subagents/agent-1.jsonl": ("claude-code", lines_of(claude("c1", "Count the apples.")).encode()),
    "copy of claude.jsonl": ("claude-code", lines_of(claude("c1", "Count the pears.")).encode()),
    "backup": ("claude-code", lines_of(claude("c2", "Count the nuts.")).encode()),
    "y/2026/rollout-2026-03-02.jsonl": ("codex", codex("x1").encode()),
    "gemini-2026-03.json": ("gemini", json.dumps(gemini("g1"), indent=2).encode()),
    "session-1.json": ("gemini", json.dumps(gemini("g2")).encode()),
    "chat.jsonl": ("gemini", lines_of({**gemini("g3"), "messages": []}, gemini("g3")["messages"][0]).encode()),
    "agent.jsonl": ("cursor", CURSOR.encode()),
    "story.md": ("cursor", SPECSTORY.encode()),
    "vs/code.jsonl": ("vscode", vscode("v1").encode()),
    "talks.jsonl": ("jsonl", LINES.encode()),
    "old/talks.log": ("jsonl", LINES.replace('"s1', '"s2').encode()),
    "packed.jsonl.gz": ("jsonl", gzip.compress(LINES.replace('"s1', '"s3').encode())),
    "packed-gemini.json.gz": ("gemini", gzip.compress(json.dumps(gemini("g4")).encode())),
    "wide.jsonl": ("jsonl", LINES.replace('"s1', '"s4').encode("utf-16")),
}
UNREADABLE = {
    "README.md": (b"# Nothing said\n", "not a transcript of a known client"),
    "package.json": (b'{"name": "x"}', "not a transcript of a known client"),
    "what.jsonl": (b'{"what": "is this"}\n', "not a transcript of a known client; name it with --client"),
    "deep.json": (b"[" * 100_000, "not a transcript"),
    "image.png": (bytes(range(256)) * 99, "not a transcript"),
    "empty.jsonl": (b"", "the file is empty"),
    "broken.jsonl.gz": (gzip.compress(LINES.encode() * 99)[:200], "the file cannot be unpacked"),
    "half.jsonl": ("\ufeff{".encode("utf-16-le") + b"\0", "the file cannot be unpacked"),
    "archive.tar.gz": (gzip.compress(bytes(5_000)), "not a transcript"),
}


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A directory with every form that can be read, and with much that cannot."""
    place = tmp_path / "mixed"
    for name, data in {**{name: data for name, (_, data) in READABLE.items()}, **_contents(UNREADABLE)}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    return place


def _contents(files: dict[str, tuple[bytes, str]]) -> dict[str, bytes]:
    return {name: data for name, (data, _) in files.items()}


def test_a_directory_gives_each_file_to_its_client_and_the_reason_for_each_other(mixed: Path) -> None:
    read, skipped = looked_at(mixed)
    assert read == {name: client for name, (client, _) in READABLE.items()}
    assert skipped.keys() == UNREADABLE.keys()
    assert {name for name in skipped if not skipped[name].startswith(UNREADABLE[name][1])} == set()


def test_for_one_client_the_others_files_are_told(mixed: Path) -> None:
    read, skipped = looked_at(mixed, "gemini")
    assert sorted(read) == ["chat.jsonl", "gemini-2026-03.json", "packed-gemini.json.gz", "session-1.json"]
    assert skipped["claude.jsonl"] == "not a transcript of gemini"
    assert len(read) + len(skipped) == len(READABLE) + len(UNREADABLE)


@posix
def test_links_are_followed_once_and_what_is_no_file_is_told(mixed: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "below").mkdir(parents=True)
    (elsewhere / "below" / "far.jsonl").write_text(LINES)
    (elsewhere / "back").symlink_to(mixed)
    (mixed / "linked").symlink_to(elsewhere)
    (mixed / "self").symlink_to(mixed)
    (mixed / "y" / "up").symlink_to("..")
    (mixed / "again.jsonl").symlink_to(mixed / "talks.jsonl")
    (mixed / "loop.jsonl").symlink_to(mixed / "loop.jsonl")
    (mixed / "gone.jsonl").symlink_to(mixed / "nowhere.jsonl")
    (mixed / "memory.jsonl").symlink_to("/proc/self/mem")
    os.mkfifo(mixed / "pipe.jsonl")
    (mixed / ".git").mkdir()
    (mixed / ".git" / "talks.jsonl").write_text(LINES)
    read, skipped = looked_at(mixed)
    once = {name for name in ("talks.jsonl", "again.jsonl") if name in read}
    assert len(once) == 1
    assert read.keys() - once == READABLE.keys() - {"talks.jsonl"} | {"linked/below/far.jsonl"}
    told = {name: skipped[name].split(";")[0] for name in skipped.keys() - UNREADABLE.keys()}
    assert told.pop("memory.jsonl", "").startswith(("the file is empty", "the file cannot be read"))
    assert told == {
        "loop.jsonl": "a link that leads nowhere",
        "gone.jsonl": "a link that leads nowhere",
        "pipe.jsonl": "neither a file nor a directory",
        ".git": "a program's own files are not looked into",
    }


@posix
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_told(mixed: Path) -> None:
    (mixed / "claude.jsonl").chmod(0)
    (mixed / "y").chmod(0)
    try:
        _, skipped = looked_at(mixed)
    finally:
        (mixed / "y").chmod(0o700)
    assert skipped["claude.jsonl"] == "the file cannot be read: Permission denied"
    assert skipped["y"] == "the directory cannot be read: Permission denied"


def test_a_dry_run_of_a_mixed_directory_promises_what_comes(shell: Shell, mixed: Path) -> None:
    promised, done = (shell.json("import", str(mixed), *more) for more in (["--dry-run"], []))
    names = ("files", "events_new", "events_known", "skipped")
    assert [promised[name] for name in names] == [done[name] for name in names]
    assert (done["files"], done["events_new"]) == (len(READABLE), 11 + 4 * COUNT)
    assert {os.path.relpath(bad["path"], mixed) for bad in done["skipped"]} == UNREADABLE.keys()
    again, then = (shell.json("import", str(mixed), *more) for more in (["--dry-run"], []))
    assert (again["events_new"], then["events_new"]) == (0, 0)
    assert again["events_known"] == then["events_known"] == done["events_new"] + done["events_known"]
    text = shell.run("import", str(mixed)).stdout
    assert f"0 lines and {len(UNREADABLE)} files skipped" in text
    assert f"{mixed / 'package.json'}: not a transcript" in text


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="files without a name are Linux's")
def test_many_packed_files_do_not_exhaust_what_a_process_may_open(tmp_path: Path) -> None:
    import resource

    for number in range(400):
        (tmp_path / f"{number}.jsonl.gz").write_bytes(gzip.compress(LINES.encode()))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # What other tests have left open in this process is not the command's.
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, len(os.listdir("/proc/self/fd")) + 300), hard))
    try:
        read, skipped = looked_at(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (len(read), skipped) == (400, {})
