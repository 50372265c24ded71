"""The Whoosh index after harm to its files, a full disk, and a database put back from a copy."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("whoosh")

from mcp_memory.errors import StoreError, StoreFull
from mcp_memory.store.whoosh import writer
from tests.store.whoosh.indexed import catch_up, found, found_by_whoosh, memory, state, walrus
from tests.support import conversation, learn, said, tell

pytestmark = pytest.mark.anyio


def no_folder(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def no_segment(folder: Path) -> None:
    next(folder.glob("*.seg")).unlink()


def short_segment(folder: Path) -> None:
    segment = next(folder.glob("*.seg"))
    segment.write_bytes(segment.read_bytes()[:64])


def scrambled_segment(folder: Path) -> None:
    segment = next(folder.glob("*.seg"))
    segment.write_bytes(bytes(255 - byte for byte in segment.read_bytes()))


def scrambled_toc(folder: Path) -> None:
    toc = next(folder.glob("*.toc"))
    toc.write_bytes(os.urandom(toc.stat().st_size))


def empty_toc(folder: Path) -> None:
    next(folder.glob("*.toc")).write_bytes(b"")


def no_position(folder: Path) -> None:
    next(folder.glob("position_*.json")).unlink()


def scrambled_position(folder: Path) -> None:
    next(folder.glob("position_*.json")).write_text("{")


def other_format(folder: Path) -> None:
    path = next(folder.glob("position_*.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 0}))


def strange_position(folder: Path) -> None:
    next(folder.glob("position_*.json")).write_text('{"what": 1}')


HARM: list[Callable[[Path], None]] = [
    *(no_folder, no_segment, short_segment, scrambled_segment, scrambled_toc, empty_toc),
    *(no_position, scrambled_position, other_format, strange_position),
]


@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__)
async def test_a_damaged_index_is_stood_in_for_and_built_anew(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), walrus()])
    harm(tmp_path / "whoosh")
    async with memory(tmp_path) as app:
        assert await found(app, "walrus") == ["the walrus number 0"]
        assert await app.pipeline.waits()
        await learn(app, [])
        assert await state(app) == "current"
        assert await found_by_whoosh(app, "walrus") == ["the walrus number 0"]


async def test_damage_met_while_writing_is_mended_too(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), walrus()])
    scrambled_segment(tmp_path / "whoosh")
    async with memory(tmp_path) as app:
        await learn(app, conversation("2026-03-09", "s3"))
        assert len(await found_by_whoosh(app, "timeout")) == 4
        assert await found_by_whoosh(app, "walrus") == ["the walrus number 0"]


async def test_an_index_that_can_never_be_built_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> list[str]:
        raise KeyError(text)

    async with memory(tmp_path) as app:
        await tell(app, [walrus()])
        monkeypatch.setattr(writer, "index_words", broken)
        with pytest.raises(StoreError, match="FTS5"):
            await catch_up(app)
        assert await found(app, "walrus") == ["the walrus number 0"]


async def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with memory(tmp_path) as app:
        await learn(app, conversation())
        await tell(app, [walrus()])
        monkeypatch.setattr(writer, "_rewrite", full)
        with pytest.raises(StoreFull, match="cannot be written"):
            await app.index.catch_up()
        monkeypatch.undo()
        assert await found(app, "walrus") == ["the walrus number 0"]
        await catch_up(app)
        assert await found_by_whoosh(app, "walrus") == ["the walrus number 0"]


async def copied(tmp_path: Path) -> tuple[Path, Path]:
    """A memory that knows a conversation, and a copy of its database to put in place later."""
    home, copy = tmp_path / "home", tmp_path / "copy.db"
    async with memory(home) as app:
        await learn(app, conversation())
    copy.write_bytes((home / "memory.db").read_bytes())
    return home, copy


async def test_an_older_database_put_in_place_of_the_file_is_noticed(tmp_path: Path) -> None:
    home, copy = await copied(tmp_path)
    async with memory(home) as app:
        await learn(app, [walrus()])
    restore(home, copy)
    async with memory(home) as app:
        # The index is ahead of the database: it knows what was never said here.
        assert await found(app, "walrus") == []
        await learn(app, [])
        assert await found_by_whoosh(app, "walrus") == []
        assert len(await found_by_whoosh(app, "timeout")) == 2


async def test_a_restored_database_that_has_grown_again_is_noticed(tmp_path: Path) -> None:
    home, copy = await copied(tmp_path)
    async with memory(home) as app:
        await learn(app, [walrus()])
    restore(home, copy)
    async with memory(home, "fts5") as app:
        # As many events and versions as the index knows, but others.
        await learn(app, [said("the penguin", "2026-03-04T00:00:30Z", session="w")])
    async with memory(home) as app:
        assert await state(app) == "to be built"
        assert await found(app, "walrus") == []
        assert await found(app, "penguin") == ["the penguin"]
        await learn(app, [])
        assert await found_by_whoosh(app, "walrus") == []
        assert await found_by_whoosh(app, "penguin") == ["the penguin"]


def restore(home: Path, copy: Path) -> None:
    for suffix in ("-wal", "-shm"):
        (home / f"memory.db{suffix}").unlink(missing_ok=True)
    (home / "memory.db").write_bytes(copy.read_bytes())
