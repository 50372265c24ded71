"""The report on a deletion: it shows what was there, finds what is left, and holds no forgotten word."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.surfaces.byte_scan import ByteScanner
from tests.support import conversation, on_engine, said, store_of
from tests.surfaces.shell import Shell

WORD = "quaggaword"


@pytest.fixture
def filled(shell: Shell) -> Shell:
    """A memory in which one session says the word and another does not."""
    lines = [
        *conversation("2026-03-02"),
        said(f"Remember that the {WORD} plan starts in May.", "2026-03-02T09:06:00Z"),
        said(f"Decision: the {WORD} plan is drawn by hand.", "2026-03-02T09:07:00Z", role="assistant"),
        *conversation("2026-03-04", session="s2", project="beta"),
    ]
    (shell.cwd / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shell.run("import", "--client", "jsonl", "history.jsonl")
    shell.run("process")
    return shell


def forget(shell: Shell, *request: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, the report, and what is printed."""
    done = shell.run("forget", *request, "--yes", "--proof", "report.json")
    return done.returncode, json.loads((shell.cwd / "report.json").read_text()), done.stdout


def test_the_report_shows_what_was_there_and_that_nothing_is_left(filled: Shell) -> None:
    code, report, printed = forget(filled, "--match", WORD.upper())
    assert (code, report["verdict"], report["after"]["finds"]) == (0, "nothing left", 0)
    before = report["before"]
    assert {"events", "nodes", "grips", "briefs"} <= set(before["kinds"])
    assert before["kinds"]["events"] == 2
    assert min(before["finds_in_raw_bytes"], before["indexes"]["fts5"]) > 0
    assert report["outcome"]["events"] == 2
    files = {file["name"]: file for file in report["after"]["files"]}
    assert {"memory.db", "inbox.db"} <= set(files)
    assert all(len(file["sha256"]) == 64 and file["finds"] == 0 for file in files.values())
    assert files["memory.db"]["free_pages"] == 0
    assert (filled.cwd / "report.json").stat().st_mode & 0o777 == 0o600
    assert "After: 0 finds in " in printed


def test_the_report_holds_no_forgotten_word_in_any_form(filled: Shell) -> None:
    (filled.home / f"{WORD}-notes.txt").write_text(f"The {WORD} again.")
    code, _, printed = forget(filled, "--match", WORD)
    assert code == 1
    assert ByteScanner([WORD]).scan_file(filled.cwd / "report.json").total == 0
    summary = printed[printed.index("Before: ") :]
    assert ByteScanner([WORD]).scan_bytes(summary.encode()).total == 0
    assert "[…]-notes.txt: 1 finds" in printed


def test_the_digest_is_another_one_each_time(filled: Shell) -> None:
    _, first, _ = forget(filled, "--match", WORD)
    _, second, _ = forget(filled, "--match", WORD)
    assert first["asked"]["digest"] != second["asked"]["digest"]


@pytest.mark.parametrize("kind", ["a damaged database", "a packed export", "a file over UTF-16"])
def test_a_copy_that_is_left_in_the_data_directory_is_found(filled: Shell, kind: str) -> None:
    if kind == "a damaged database":
        shutil.copyfile(filled.home / "memory.db", filled.home / "memory.db.corrupt-20260101-000000")
        with closing(sqlite3.connect(filled.home / "memory.db.corrupt-20260101-000000")) as copy:
            copy.execute("CREATE TABLE more (text)")
            copy.execute("INSERT INTO more VALUES (?)", (f"{WORD} once more",))
            copy.commit()
    elif kind == "a packed export":
        (filled.home / "old.jsonl.gz").write_bytes(gzip.compress(f"the {WORD} plan".encode()))
    else:
        (filled.home / "notes.txt").write_bytes(f"the {WORD} plan".encode("utf-16"))
    code, report, _ = forget(filled, "--match", WORD)
    assert (code, report["verdict"]) == (1, "found")
    assert len([file for file in report["after"]["files"] if file["finds"]]) == 1


def test_a_damaged_database_makes_the_report_incomplete(filled: Shell) -> None:
    whole = (filled.home / "memory.db").read_bytes()
    (filled.home / "memory.db.corrupt-20260101-000000").write_bytes(whole[:100] + b"\xff" * 8000)
    code, report, printed = forget(filled, "--match", WORD)
    assert (code, report["verdict"]) == (1, "incomplete")
    assert "memory.db.corrupt-20260101-000000 was not read in full" in printed


def test_a_search_that_finds_nothing_before_proves_nothing(filled: Shell) -> None:
    code, report, printed = forget(filled, "--match", "zebraword")
    assert (code, report["verdict"]) == (1, "proves nothing")
    assert "this proves nothing" in printed


def test_other_requests_look_for_lines_that_only_the_erased_events_have(filled: Shell) -> None:
    # The other session says the same but for these two lines.
    code, report, _ = forget(filled, "--session", "s1")
    assert (code, report["verdict"], report["asked"]["by"]) == (0, "nothing left", "session")
    assert report["texts_looked_for"] == 2
    assert report["before"]["kinds"]["events"] >= 2
    assert WORD not in json.dumps(report)


def test_a_line_of_an_erased_session_that_is_left_somewhere_is_found(filled: Shell) -> None:
    (filled.home / "left.txt").write_text(f"He said: remember that the {WORD} plan starts in May.")
    code, report, _ = forget(filled, "--session", "s1")
    assert (code, [file["name"] for file in report["after"]["files"] if file["finds"]]) == (1, ["left.txt"])


def test_other_spellings_of_the_words_are_no_finds(shell: Shell) -> None:
    lines = [
        said("The refresh token is old.", "2026-03-02T09:00:00Z"),
        said("See refresh_tokens.py.", "2026-03-02T09:01:00Z"),
    ]
    (shell.cwd / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shell.run("import", "--client", "jsonl", "history.jsonl")
    shell.run("process")
    code, report, _ = forget(shell, "--match", "refresh token")
    assert (code, report["after"]["indexes"]) == (0, {"fts5": 0})
    assert shell.json("status")["events"] == 1


def test_the_report_is_refused_where_it_cannot_be_before_anything_is_erased(filled: Shell) -> None:
    for place in ("nowhere/report.json", ".", str(filled.home / "report.json")):
        done = filled.run("forget", "--match", WORD, "--yes", "--proof", place)
        assert done.returncode == 2, done.stdout
    assert filled.run("forget", "--match", WORD, "--dry-run", "--proof", "report.json").returncode == 2
    assert filled.json("status")["events"] == 18


def test_the_hash_tells_whether_the_report_was_changed(filled: Shell) -> None:
    forget(filled, "--match", WORD)
    path = filled.cwd / "report.json"
    assert filled.feed(f"{WORD}\n", "doctor", "--forgotten", "--match", "-", "--report", str(path)).returncode == 0
    path.write_text(path.read_text().replace('"events": 2', '"events": 3'))
    done = filled.feed(f"{WORD}\n", "doctor", "--forgotten", "--match", "-", "--report", str(path))
    assert (done.returncode, "its hash is wrong" in done.stderr) == (2, True)


def test_later_the_words_are_compared_with_the_report(filled: Shell) -> None:
    forget(filled, "--match", WORD)
    ask = ("doctor", "--forgotten", "--match", "-", "--report", "report.json")
    done = filled.feed(f"  {WORD.title()}\nzebraword\n", *ask)
    assert (done.returncode, "1 of 2 texts is what the report says was forgotten" in done.stdout) == (0, True)
    assert filled.feed("zebraword\n", *ask).returncode == 2
    assert filled.feed("\n", *ask).returncode == 2


def test_later_a_word_that_is_there_again_is_found_and_nothing_is_erased(filled: Shell) -> None:
    forget(filled, "--match", WORD)
    (filled.home / "again.txt").write_text(WORD)
    before = {
        path: hashlib.sha256(path.read_bytes()).hexdigest() for path in filled.home.rglob("*.*") if path.is_file()
    }
    done = filled.feed(f"{WORD}\n", "doctor", "--forgotten", "--match", "-")
    assert (done.returncode, "again.txt: 1 finds" in done.stdout) == (1, True)
    after = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in before}
    assert {path.name for path in before if before[path] != after[path]} <= {"memory.db-shm", "inbox.db-shm"}


def test_doctor_finds_a_forgotten_event_that_is_stored_again(filled: Shell) -> None:
    with closing(sqlite3.connect(filled.home / "memory.db")) as memory:
        rows = memory.execute("SELECT * FROM event WHERE text LIKE ?", (f"%{WORD}%",)).fetchall()
    forget(filled, "--match", WORD)
    assert filled.run("doctor", "--forgotten").returncode == 0
    with closing(sqlite3.connect(filled.home / "memory.db")) as memory:
        memory.execute(f"INSERT INTO event VALUES ({', '.join('?' * len(rows[0]))})", rows[0])
        memory.commit()
    done = filled.run("doctor", "--forgotten", "--json")
    assert (done.returncode, json.loads(done.stdout)["stored_again"]) == (1, 1)


def test_a_report_on_a_server_covers_its_tables_and_samples(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with on_engine("postgres"):
        shell.environment["MCP_MEMORY_STORE_URL"] = store_of(shell.home).url
        (shell.cwd / "history.jsonl").write_text(json.dumps(said(f"The {WORD} plan.", "2026-03-02T09:06:00Z")))
        shell.run("import", "--client", "jsonl", "history.jsonl")
        shell.run("process")
        code, report, _ = forget(shell, "--match", WORD)
        assert (code, report["before"]["kinds"]["events"], report["before"]["indexes"]["postgres"] > 0) == (0, 1, True)
        tables = {table["name"].partition("_")[0] for table in report["after"]["relations"]}
        assert {"event", "bullet", "search"} <= tables
        assert report["after"]["pg_stats"] == 0
        assert any("write-ahead log" in place for place in report["not_looked_at"])
