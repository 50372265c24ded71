"""How far the index has got, and what that means for it.

The database is the truth. Events and node versions have numbers that only grow, so two of them say what the index
holds; what was erased since is told by marks that the database keeps. The position is written under the name of the
generation that a commit is about to make: whichever generation there is, its position tells what is in it.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

from mcp_memory.store.sqlite.database import ERASURES, Database, Row

#: What Whoosh puts before the names of its files.
NAME = "MAIN"
#: Raised whenever fields or analysis change: an index of another number is built anew.
FORMAT = 1
_DAMAGED = "damaged"
_TOC = re.compile(rf"_{NAME}_(\d+)\.toc")
_POSITION = re.compile(r"position_(\d+)\.json")
REACHED = f"""
    SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0),
           coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'node_version'), 0),
           coalesce(({ERASURES}), '')
"""
_EVENT = "SELECT lower(hex(key)) FROM event WHERE id = ?"
_FORGOTTEN = "SELECT 1 FROM forgotten WHERE key = ?"
_VERSION = "SELECT node || ' ' || version || ' ' || created_ms || ' ' || input_hash FROM node_version WHERE id = ?"


class Verdict(Enum):
    """How the index stands to the database."""

    CURRENT = "current"
    #: Something was added to the database since.
    BEHIND = "behind"
    #: Something was erased from the database since, and is still in the index.
    ERASED = "holds what was erased"
    #: There is none that could be used: none at all, a damaged one, or one of another database or version.
    UNUSABLE = "to be built"


@dataclass(frozen=True, slots=True)
class Position:
    """The last event and node version in the index, with what tells them from others of the same number."""

    event: int = 0
    event_name: str = ""
    version: int = 0
    version_name: str = ""
    erasure: str = ""
    format: int = FORMAT


def generation(folder: Path) -> int | None:
    """The number of the last commit."""
    try:
        found = [int(match[1]) for name in os.listdir(folder) if (match := _TOC.fullmatch(name))]
    except OSError:
        return None
    return max(found, default=None)


def read_position(folder: Path, number: int | None) -> Position | None:
    if number is None or (folder / _DAMAGED).exists():
        return None
    try:
        return Position(**json.loads((folder / f"position_{number}.json").read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_position(folder: Path, number: int, position: Position) -> None:
    """Say what the generation will hold, before it is there."""
    target = folder / f"position_{number}.json"
    descriptor = os.open(target, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(position), file)


def drop_positions(folder: Path, kept: int) -> None:
    """Those of generations that are gone."""
    for name in os.listdir(folder):
        match = _POSITION.fullmatch(name)
        if match and int(match[1]) != kept:
            (folder / name).unlink(missing_ok=True)


def mark_damaged(folder: Path) -> None:
    """So that whoever may write builds it anew."""
    os.close(os.open(folder / _DAMAGED, os.O_CREAT | os.O_WRONLY, 0o600))


@dataclass(frozen=True, slots=True)
class Reached:
    """How far the database has got: its last event and node version, and the marks of what was erased."""

    event: int
    version: int
    erasures: tuple[str, ...]

    @classmethod
    def of(cls, row: Row) -> Reached:
        """From a row of REACHED."""
        return cls(row[0], row[1], tuple(row[2].split()))

    @property
    def erasure(self) -> str:
        return self.erasures[-1] if self.erasures else ""


async def reached(database: Database) -> Reached:
    return Reached.of((await database.fetch(REACHED))[0])


def judge(position: Position | None, now: Reached) -> Verdict:
    """What the numbers tell; `belongs` tells whether they are of the same history."""
    if position is None or position.format != FORMAT:
        return Verdict.UNUSABLE
    if position.event > now.event or position.version > now.version:
        return Verdict.UNUSABLE
    if position.erasure != now.erasure:
        known = not position.erasure or position.erasure in now.erasures
        return Verdict.ERASED if known else Verdict.UNUSABLE
    same = (position.event, position.version) == (now.event, now.version)
    return Verdict.CURRENT if same else Verdict.BEHIND


async def belongs(database: Database, position: Position, now: Reached) -> bool:
    """Whether the index was made of this database, and not of one that it was restored over.

    What the index saw last must still be there, or have been erased.
    """
    event, version = await names(database, position.event, position.version)
    erased = position.erasure != now.erasure
    if position.event_name and event != position.event_name:
        return erased and bool(await database.value(_FORGOTTEN, (bytes.fromhex(position.event_name),)))
    return version == position.version_name or (erased and not version)


async def names(database: Database, event: int, version: int) -> tuple[str, str]:
    """What tells the last event and version from others; nothing if they were erased already."""
    return (
        str(await database.value(_EVENT, (event,)) or ""),
        str(await database.value(_VERSION, (version,)) or ""),
    )
