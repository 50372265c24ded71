"""Whatever ails the database, the event is not lost: it waits in the spool."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.capture.conftest import Machine

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and bits are those of POSIX")


def expect_spooled(machine: Machine, prompt: str = "remember the spool") -> None:
    done = machine.hook(machine.payload("UserPromptSubmit", prompt=prompt))
    assert (done.stdout, done.stderr) == (b"", b"")
    (row,) = machine.spooled()
    assert set(row) == {"received_ms", "client", "root", "label", "payload", "remote"}
    assert json.loads(row["payload"])["prompt"] == prompt
    assert (row["client"], row["root"]) == ("claude-code", str(machine.project.resolve()))


def test_missing_database_is_not_made(machine: Machine) -> None:
    expect_spooled(machine)
    assert [path.name for path in machine.home.iterdir()] == ["spool"]


def test_locked_database(machine: Machine) -> None:
    machine.make_database()
    with closing(sqlite3.connect(machine.database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        expect_spooled(machine)
    assert machine.rows() == []


def test_brief_is_read_although_another_process_writes(machine: Machine) -> None:
    machine.make_database()
    machine.say("Before.")
    with closing(sqlite3.connect(machine.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        done = machine.hook(machine.payload("SessionStart"))
    assert b"Before." in done.stdout
    assert len(machine.spooled()) == 1


def test_corrupt_database(machine: Machine) -> None:
    machine.home.mkdir()
    machine.database.write_bytes(b"this is no database " * 500)
    expect_spooled(machine)
    assert machine.database.read_bytes() == b"this is no database " * 500


def test_empty_database_file(machine: Machine) -> None:
    machine.home.mkdir()
    machine.database.touch()
    expect_spooled(machine)


@pytest.mark.parametrize("version", [0, 9999])
def test_database_of_an_unknown_version(machine: Machine, version: int) -> None:
    machine.make_database(version)
    machine.say("Not for this version.")
    expect_spooled(machine)
    assert machine.rows() == []
    assert machine.hook(machine.payload("SessionStart")).stdout == b""


def test_full_database(machine: Machine) -> None:
    machine.make_database()
    with closing(sqlite3.connect(machine.database)) as database, database:
        database.execute(
            "CREATE TRIGGER full BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    expect_spooled(machine)


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write what is read-only")
def test_read_only_database(machine: Machine) -> None:
    machine.make_database()
    machine.database.chmod(0o400)
    expect_spooled(machine)


def test_database_that_cannot_be_opened(machine: Machine) -> None:
    machine.database.mkdir(parents=True)
    expect_spooled(machine)


@pytest.mark.parametrize("name", ["with space", "50% off", "what?", "c#", "üñí"])
def test_home_may_have_any_name(machine: Machine, name: str) -> None:
    machine.home = machine.home.parent / name
    machine.database = machine.home / "inbox.db"
    machine.make_database()
    machine.hook(machine.payload("Stop"))
    assert len(machine.rows()) == 1
    assert machine.spooled() == []


@posix
def test_spool_is_for_its_owner_only(machine: Machine) -> None:
    machine.hook(machine.payload("Stop"))
    spool = machine.home / "spool"
    (file,) = spool.iterdir()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (machine.home, spool, file)]
    assert modes == [0o700, 0o700, 0o600]


def test_spool_names_sort_by_time_and_none_is_left_half_written(machine: Machine) -> None:
    for number in range(3):
        machine.hook(machine.payload("UserPromptSubmit", prompt=str(number)))
    names = [path.name for path in (machine.home / "spool").iterdir()]
    assert all(re.fullmatch(r"\d{13}-\d+-[0-9a-f]+\.json", name) for name in names)
    assert [json.loads(row["payload"])["prompt"] for row in machine.spooled()] == ["0", "1", "2"]


def test_row_survives_although_the_hook_does_not_close_the_database(machine: Machine) -> None:
    machine.make_database()
    machine.hook(machine.payload("Stop"))
    assert (machine.home / "inbox.db-wal").stat().st_size > 0
    assert len(machine.rows()) == 1
