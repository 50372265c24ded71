"""Forgetting names what holds the words outside the memory, and removes lines from transcripts if it is told to."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.clients import CLIENTS
from mcp_memory.clients.port import TranscriptState
from mcp_memory.domain.events import Captured
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.pipeline.importing import import_files
from mcp_memory.store.sqlite.tables import FileTables
from mcp_memory.surfaces.forget_command import carry_out, erase_at_once
from tests.postgres import shared_server
from tests.support import learn, memory, said
from tests.surfaces.shell import Shell

WORD = "quaggaword"
SESSION, OTHER = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
#: When the client last wrote to its transcripts.
LONG_AGO = 1_770_000_000
SECRET_LINES = (2, 3)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def claude_line(number: int, kind: str, content: Any, session: str = SESSION, **fields: Any) -> dict[str, Any]:
    at = f"2026-02-{number + 1:02}T10:00:00.000Z"
    message = {"role": kind, "content": content}
    line = {"type": kind, "uuid": f"{session[:8]}-{number:04}-aaaa", "sessionId": session, "timestamp": at}
    return {**line, "cwd": "/home/ada/orchard", "isSidechain": False, "message": message, **fields}


def claude_transcript(shell: Shell, session: str = SESSION) -> Path:
    """A transcript whose third line says the word, and whose fourth holds it in full-width letters."""
    wide = "".join(chr(ord(letter) + 0xFEE0) for letter in WORD)
    rows = [
        claude_line(0, "user", "How many pears are there?", session),
        claude_line(1, "assistant", [{"type": "text", "text": "There are 31 pears."}], session),
        claude_line(2, "user", f"The {WORD} plan starts in May.", session),
        claude_line(3, "assistant", [{"type": "text", "text": f"Noted: {wide} starts in May."}], session),
        claude_line(4, "user", "Now count the apples, please.", session),
        claude_line(5, "assistant", [{"type": "text", "text": "There are 12 apples."}], session),
    ]
    path = shell.home.parent / ".claude" / "projects" / "-home-ada-orchard" / f"{session}.jsonl"
    return put(path, b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows))


def codex_transcript(shell: Shell) -> Path:
    """A rollout that says everything twice, as Codex does."""
    at = "2026-02-03T10:00:0{}.000Z".format
    said_by = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"The {WORD} plan."}]}
    other = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Plant a tree."}]}
    rows: list[dict[str, Any]] = [
        {"timestamp": at(0), "type": "session_meta", "payload": {"id": OTHER, "cwd": "/home/ada/barn"}},
        {"timestamp": at(1), "type": "response_item", "payload": said_by},
        {"timestamp": at(1), "type": "event_msg", "payload": {"type": "user_message", "message": f"The {WORD} plan."}},
        {"timestamp": at(2), "type": "response_item", "payload": other},
    ]
    path = shell.home.parent / ".codex" / "sessions" / "2026" / "02" / "03" / f"rollout-2026-02-03-{OTHER}.jsonl"
    return put(path, b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o640)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def found_in(shape: dict[str, Any]) -> dict[str, int]:
    return {row["path"]: row["lines"] for row in shape["transcripts"]}


def told_by(path: Path, client: str = "claude-code") -> list[str]:
    return [item.text for item in CLIENTS[client].read(path, TranscriptState()) if isinstance(item, Captured)]


def event_named(shell: Shell, words: str) -> str:
    return str(shell.json("search", words, "--project", "*")["hits"][0]["event_ids"][0])


def request_of(shell: Shell, kind: str) -> tuple[str, str]:
    given = {"session": SESSION, "project": "orchard", "before": "2026-02-04", "match": WORD.upper()}
    return f"--{kind}", given[kind] if kind in given else event_named(shell, f"{WORD} plan starts in May")


@pytest.mark.parametrize(
    ("kind", "gone"),
    [
        ("match", {2, 3}),
        ("event", {2}),
        ("before", {0, 1, 2}),
        ("session", {0, 1, 2, 3, 4, 5}),
        ("project", {0, 1, 2, 3, 4, 5}),
    ],
)
def test_lines_of_a_request_are_counted_and_removed_and_all_others_stay(
    shell: Shell, kind: str, gone: set[int]
) -> None:
    path = claude_transcript(shell)
    shell.json("import")
    before = lines_of(path)
    option = request_of(shell, kind)
    assert found_in(shell.json("forget", *option, "--dry-run")) == {str(path): len(gone)}
    if kind != "project":  # where it is, memory knows no more than what it is called
        done = shell.json("forget", *option, "--yes")
        assert (found_in(done), done["transcripts"][0]["removed"]) == ({str(path): len(gone)}, 0)
        assert lines_of(path) == before
    # What memory no longer holds can still be removed there.
    done = shell.json("forget", *option, "--yes", "--transcripts")
    assert [row["removed"] for row in done["transcripts"]] == [len(gone)]
    assert lines_of(path) == [line for index, line in enumerate(before) if index not in gone]
    if path.exists():
        found = path.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_mtime) == (0o640, LONG_AGO)
    assert [name.name for name in path.parent.iterdir()] == ([path.name] if path.exists() else [])
    backup = Path(done["transcripts"][0]["backup"])
    assert backup.read_bytes() == b"".join(before)
    assert backup.stat().st_mode & 0o077 == backup.parent.stat().st_mode & 0o077 == 0


def test_what_is_read_again_after_lines_were_removed_adds_nothing_and_new_lines_are_read(shell: Shell) -> None:
    path = claude_transcript(shell)
    shell.json("import")
    shell.json("forget", "--match", WORD, "--transcripts", "--no-backup", "--yes")
    assert shell.json("import")["events_new"] == 0
    new = claude_line(9, "user", "A new line about plums.")
    put(path, path.read_bytes() + json.dumps(new).encode() + b"\n")
    assert shell.json("import")["events_new"] == 1
    assert not list((shell.home / "backups").rglob("*.jsonl*")) if (shell.home / "backups").exists() else True
    assert "plums" in shell.run("search", "plums", "--project", "*").stdout


def test_a_client_that_says_everything_twice_loses_both_and_keeps_the_line_that_names_its_session(
    shell: Shell,
) -> None:
    path = codex_transcript(shell)
    shell.json("import")
    before = lines_of(path)
    done = shell.json("forget", "--event", event_named(shell, f"{WORD} plan"), "--transcripts", "--yes")
    assert [row["removed"] for row in done["transcripts"]] == [2]
    assert lines_of(path) == [before[0], before[3]]
    assert told_by(path, "codex") == ["Plant a tree."]
    done = shell.json("forget", "--match", "/home/ada/barn", "--transcripts", "--yes")
    assert [(row["removed"], "by which the client knows" in row["left"]) for row in done["transcripts"]] == [(0, True)]


def test_messages_of_a_json_document_are_removed_if_it_is_as_its_client_writes_it(shell: Shell) -> None:
    messages = [
        {"id": str(number), "type": "user", "timestamp": f"2026-02-0{number}T10:00:00.000Z", "content": text}
        for number, text in enumerate(["Count the pears.", f"The {WORD} plan.", "Ｐlums."], 1)
    ]
    document = {"sessionId": "s1", "projectHash": "h", "startTime": "2026-02-01T10:00:00.000Z", "messages": messages}
    folder = shell.home.parent / ".gemini" / "tmp" / "h" / "chats"
    path = put(folder / "session-1.json", json.dumps(document, indent=2, ensure_ascii=False).encode())
    odd = put(folder / "session-2.json", json.dumps(document).encode())
    shell.json("import")
    done = shell.json("forget", "--match", WORD, "--transcripts", "--yes")
    rows = {row["path"]: row for row in done["transcripts"]}
    assert (rows[str(path)]["removed"], rows[str(path)]["left"]) == (1, "")
    assert (rows[str(odd)]["removed"], rows[str(odd)]["left"]) == (0, "it is not written as its client writes it")
    left = {**document, "messages": [messages[0], messages[2]]}
    assert path.read_bytes() == json.dumps(left, indent=2, ensure_ascii=False).encode()
    assert odd.read_bytes() == json.dumps(document).encode()
    assert shell.json("import")["events_new"] == 0


def test_a_transcript_in_use_is_left_alone(shell: Shell) -> None:
    fresh, held = claude_transcript(shell), claude_transcript(shell, OTHER)
    shell.json("import")
    os.utime(fresh, (time.time(), time.time()))
    with subprocess.Popen(["tail", "-f", str(held)], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        done = shell.json("forget", "--match", WORD, "--transcripts", "--yes")
        reader.terminate()
    left = {row["path"]: row["left"] for row in done["transcripts"]}
    assert "within the last minute" in left[str(fresh)]
    if Path("/proc/self/fd").is_dir():
        assert f"(process {reader.pid}) has it open" in left[str(held)]
        assert len(lines_of(held)) == 6
    assert len(lines_of(fresh)) == 6


def test_prompt_logs_and_imported_files_are_searched_too(shell: Shell, tmp_path: Path) -> None:
    log = tmp_path / ".claude" / "history.jsonl"
    rows = [{"display": text, "timestamp": LONG_AGO * 1000, "sessionId": SESSION} for text in ("Hello.", f"A {WORD}.")]
    put(log, b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    rows = [said("Mend the fence.", "2026-02-03T10:00:00Z"), said(f"The {WORD}.", "2026-02-04T10:00:00Z")]
    other = put(tmp_path / "elsewhere" / "old.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    shell.json("import", str(other.parent))
    assert found_in(shell.json("forget", "--match", WORD, "--dry-run")) == {str(log): 1, str(other): 1}
    shell.json("forget", "--match", WORD, "--transcripts", "--yes")
    assert (len(lines_of(log)), len(lines_of(other))) == (1, 1)


def test_other_files_of_a_client_are_named_and_not_changed(shell: Shell, tmp_path: Path) -> None:
    transcript = claude_transcript(shell)
    result = put(transcript.parent / SESSION / "tool-results" / "r1.txt", f"One\nThe {WORD}.\n".encode())
    put(tmp_path / ".claude" / "file-history" / OTHER / "f1", b"Nothing of it.\n")
    shell.json("import")
    assert found_in(shell.json("forget", "--match", WORD, "--dry-run")) == {str(transcript): 2, str(result): 1}
    done = shell.json("forget", "--session", SESSION, "--transcripts", "--yes")
    assert [(row["removed"], "no transcript" in row["left"]) for row in done["transcripts"]] == [(6, False), (0, True)]
    assert result.read_bytes() == f"One\nThe {WORD}.\n".encode()


@pytest.fixture
def copied(shell: Shell, tmp_path: Path) -> dict[str, Path]:
    """A memory, and copies of it in its directory and outside, two of which do not hold the word."""
    claude_transcript(shell)
    shell.json("import")
    shell.json("process")
    inside, outside = shell.home / "kept" / "deep", tmp_path / "usb"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
    shell.json("export", "-o", str(inside / "all.jsonl"))
    shell.json("export", "-o", str(outside / "all.jsonl"))
    shell.json("export", "--format", "markdown", "-o", str(outside / "tree"))
    shell.json("backup", str(outside / "copy.db"))
    shell.json("backup", str(outside / "thrown-away.db"))
    (outside / "thrown-away.db").unlink()
    (inside / "all.jsonl.gz").write_bytes(gzip.compress((inside / "all.jsonl").read_bytes()))
    (inside / "notes.txt").write_text("Nothing of it here.\n")
    return {"inside": inside, "outside": outside}


@pytest.mark.parametrize("kind", ["match", "event", "session", "project", "before"])
def test_exports_and_backups_that_hold_it_are_named_wherever_they_were_written(
    shell: Shell, copied: dict[str, Path], kind: str
) -> None:
    inside, outside = copied["inside"], copied["outside"]
    done = shell.json("forget", *request_of(shell, kind), "--yes")
    expected = {inside / "all.jsonl", inside / "all.jsonl.gz", outside / "all.jsonl", outside / "copy.db"}
    named = {Path(path) for path in done["copies"]}
    assert expected <= named
    assert all(path.suffix == ".md" for path in named - expected)
    assert named - expected or kind == "event"
    assert done["scrubbed"] is True


def test_copies_that_hold_nothing_of_it_are_not_named(shell: Shell, copied: dict[str, Path]) -> None:
    assert copied
    assert shell.json("forget", "--match", "walrusword", "--yes")["copies"] == []


def test_the_file_that_a_switch_leaves_counts_as_a_copy_until_it_is_erased(shell: Shell) -> None:
    claude_transcript(shell)
    shell.json("import")
    shell.json("process")
    url, database = shared_server().new_database(), shell.home / "memory.db"
    moved = shell.json("move", "--to", url, "--switch")
    assert moved["old"] == {"path": str(database), "erased": False}
    findings = json.loads(shell.run("doctor", "--json").stdout)["problems"]
    assert "mcp-memory move --erase-old" in [problem["fix"] for problem in findings]
    done = shell.json("forget", "--match", WORD, "--yes")
    assert done["scrubbed"] is False
    assert str(database) in done["copies"]
    assert str(database) in done["unscrubbed"]
    # What the file never held is erased all the same.
    shell.json("remember", "The walrusword sleeps at noon.")
    assert shell.json("forget", "--match", "walrusword", "--yes")["scrubbed"] is True
    late = shell.run("remember", "A program wrote this late.", MCP_MEMORY_STORE_URL="")
    assert late.returncode == 0, late.stderr
    refused = shell.run("move", "--erase-old")
    assert (refused.returncode, "1 events that the server has not" in refused.stderr) == (2, True), refused.stderr
    shell.run("forget", "--match", "wrote this late", "--yes", MCP_MEMORY_STORE_URL="")
    assert shell.json("move", "--erase-old")["old"]["erased"] is True
    assert not list(shell.home.glob("memory.db*"))
    assert not list(shell.home.glob("backups/memory-*"))
    findings = json.loads(shell.run("doctor", "--json").stdout)["problems"]
    assert "mcp-memory move --erase-old" not in [problem["fix"] for problem in findings]
    # And back: the tables there stay, until their owner has dropped them.
    assert shell.json("move", "--to", "sqlite", "--switch")["old"] == {"path": url, "erased": False}
    assert shell.json("forget", "--match", "walrusword", "--yes")["servers"] == [url]
    with FileTables.origin(database) as moved_back:
        assert moved_back.count("event") > 0


def test_a_switch_erases_the_old_file_if_it_is_told_to(shell: Shell) -> None:
    claude_transcript(shell)
    shell.json("import")
    done = shell.run("move", "--to", shared_server().new_database(), "--switch", "--erase-old")
    assert (done.returncode, "Deleted the memory that was left behind" in done.stdout) == (0, True), done.stderr
    assert not list(shell.home.glob("memory.db*"))
    assert "pears" in shell.run("search", "pears", "--project", "*").stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--erase-old",), "is the memory itself"),
        ((), "Name the place"),
        (("--to", "postgresql://a@b/c", "--erase-old"), "go with --switch"),
        (("--to", "postgresql://a@b/c", "--switch", "--erase-old", "--keep-old"), "exclude each other"),
    ],
)
def test_no_memory_in_use_is_erased(shell: Shell, words: tuple[str, ...], told: str) -> None:
    shell.json("remember", "The walrus sleeps at noon.")
    done = shell.run("move", *words)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr
    assert "walrus" in shell.run("search", "walrus", "--project", "*").stdout


@pytest.mark.anyio
async def test_the_directory_of_a_forgotten_project_does_not_come_back_with_the_next_import(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    path = claude_transcript(shell)
    async with memory(shell.home) as app:
        await read(app, path)
        assert "orchard" in await checkpoints(app)
        await carry_out(app, ForgetRequest(project="orchard", only_stored=True), dry_run=False)
        for text in ("", "{}\n"):
            put(path, path.read_bytes() + text.encode())
            assert await read(app, path) == 0
            assert "orchard" not in await checkpoints(app)
            assert SESSION not in await checkpoints(app)
        # As if it had never been read: everything is refused, and nothing of it is kept.
        await (await app.inbox.database()).write(lambda tx: tx.run("DELETE FROM checkpoint"))
        assert await read(app, path) == 0
        assert "orchard" not in await checkpoints(app)
        put(path, path.read_bytes() + json.dumps(claude_line(9, "user", "New plums.")).encode() + b"\n")
        assert await read(app, path) == 1


async def read(app: App, path: Path) -> int:
    return (await import_files(app.store, app.inbox, [(CLIENTS["claude-code"], path)], app.intaker)).events_new


async def checkpoints(app: App) -> str:
    return repr(await (await app.inbox.database()).fetch("SELECT position FROM checkpoint"))


@pytest.mark.anyio
async def test_the_words_of_an_edited_note_go_from_backups_and_the_log(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [said("Mend the fence.", "2026-02-03T10:00:00Z")])
        note = await app.remember(f"The {WORD} is green.", project="alpha")
        await app.store.refresh_backups(2, app.spending)
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "mcp-memory.log").write_text(f"cannot read {WORD}\n")
        held = [path for path in tmp_path.rglob("*") if path.is_file() and WORD.encode() in path.read_bytes()]
        assert {"backups", "logs"} <= {path.parent.name for path in held}
        await erase_at_once(app, ForgetRequest(event_key=note.key))
    assert [path for path in tmp_path.rglob("*") if path.is_file() and WORD.encode() in path.read_bytes()] == []


def test_a_checkout_whose_path_bears_the_text_is_reported(shell: Shell) -> None:
    place = shell.cwd / f"{WORD}-shop"
    place.mkdir()
    row = claude_line(1, "user", "How many pears are there?") | {"cwd": str(place)}
    put(shell.home.parent / ".claude" / "projects" / "-x" / f"{SESSION}.jsonl", json.dumps(row).encode() + b"\n")
    shell.json("import")
    done = shell.run("forget", "--match", WORD, "--yes")
    assert f"stands in the path of a directory, which memory cannot rename: {place}" in done.stdout
