"""The Whoosh index beside the database: in step after crashes and erasures, with one writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("whoosh")

from mcp_memory.app import App
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.terms import Within, terms_of
from mcp_memory.errors import SettingsError
from mcp_memory.store.whoosh import index, writer
from mcp_memory.store.whoosh.writer import right_to_write
from tests.store.whoosh.indexed import catch_up, found, found_by_whoosh, holding, memory, state, walrus
from tests.support import conversation, learn, said, tell

pytestmark = pytest.mark.anyio


async def test_what_was_just_said_is_found_before_the_index_has_it(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        assert await state(app) == "current"
        await tell(app, [walrus()])
        assert await state(app) == "behind"
        assert await app.pipeline.waits()
        assert await found(app, "walrus") == ["the walrus number 0"]
        await learn(app, [])
        assert not await app.pipeline.waits()
        assert await found_by_whoosh(app, "walrus") == ["the walrus number 0"]


async def test_catching_up_twice_changes_nothing(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        before = sorted(path.name for path in (tmp_path / "whoosh").iterdir())
        assert await app.index.catch_up() == 0
        assert sorted(path.name for path in (tmp_path / "whoosh").iterdir()) == before


CHILD = """
import os, signal, sys
from pathlib import Path
import anyio
from mcp_memory.store.whoosh import writer
from tests.store.whoosh.indexed import catch_up, memory, walrus
from tests.support import tell

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[2] == "before":
    writer._tier = die  # nothing of it is written yet
elif sys.argv[2] == "within":
    writer.index_words = lambda text: die() if "7" in text else []
elif sys.argv[2] == "at":
    writer._rewrite = die  # the position is written, and Whoosh has begun to commit
else:
    Path.chmod = die  # the commit is done

async def main():
    async with memory(Path(sys.argv[1])) as app:
        await tell(app, [walrus(n) for n in range(10)])
        await catch_up(app)

anyio.run(main)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process the POSIX way")
@pytest.mark.parametrize("moment", ["before", "within", "at", "after"])
async def test_a_kill_between_the_commits_loses_nothing(tmp_path: Path, moment: str) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
    ended = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path), moment], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    async with memory(tmp_path) as app:
        assert len(await found(app, "walrus")) == 10
        await catch_up(app)
        assert await state(app) == "current"
        assert len(await found_by_whoosh(app, "walrus")) == 10
        assert len(await found_by_whoosh(app, "timeout")) == 2
        await learn(app, [walrus(10)])
        names = [path.name for path in (tmp_path / "whoosh").iterdir()]
        assert not [name for name in names if name.endswith(".tmp") or ".toc." in name]
        assert len([name for name in names if name.startswith("position_")]) == 1


async def test_forgotten_words_leave_the_files(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), walrus()])
        await learn(app, conversation("2026-03-09", "s3"))
        assert holding(tmp_path / "whoosh", b"walru")
        await app.store.forget(ForgetRequest(match="walrus"), dry_run=False)
        assert await state(app) == "holds what was erased"
        assert await found(app, "walrus") == []
        await learn(app, [])
        assert holding(tmp_path / "whoosh", b"walru") == []
        assert len(await found_by_whoosh(app, "timeout")) == 4


async def test_forgetting_is_spread_over_commits_that_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_LARGEST", 3)
    async with memory(tmp_path) as app:
        for day in range(1, 5):
            await tell(app, [walrus(day, f"w{day}"), *conversation(f"2026-03-0{day}", f"s{day}")])
            await catch_up(app)
        await app.store.forget(ForgetRequest(match="walrus"), dry_run=False)
        assert await app.index.catch_up()
        assert await state(app) == "holds what was erased"
        await catch_up(app)
        assert holding(tmp_path / "whoosh", b"walru") == []
        assert len(await found_by_whoosh(app, "timeout")) == 8


async def test_what_was_erased_while_it_was_read_goes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    async with memory(tmp_path) as app:
        await learn(app, conversation())
        await tell(app, [walrus()])
        source = app.index._store  # type: ignore[attr-defined]
        index_changes = source.index_changes

        async def forgotten_meanwhile(*given: Any) -> Any:
            found = await index_changes(*given)
            await app.store.forget(ForgetRequest(match="walrus"), dry_run=False)
            return found

        monkeypatch.setattr(source, "index_changes", forgotten_meanwhile)
        await app.index.catch_up()
        monkeypatch.undo()
        assert holding(tmp_path / "whoosh", b"walru")
        assert await found(app, "walrus") == []
        await catch_up(app)
        assert holding(tmp_path / "whoosh", b"walru") == []


async def test_two_memories_share_one_index(tmp_path: Path) -> None:
    async with memory(tmp_path) as first, memory(tmp_path) as second:
        await learn(first, conversation())
        assert len(await found_by_whoosh(second, "timeout")) == 2
        await learn(first, [walrus()])
        assert await found_by_whoosh(second, "walrus") == ["the walrus number 0"]
        await learn(second, [walrus(1)])
        assert len(await found_by_whoosh(first, "walrus")) == 2


async def test_only_one_at_a_time_writes(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        await tell(app, [walrus()])
        with right_to_write(tmp_path / "whoosh") as mine:
            assert mine
            assert await app.index.catch_up() == 0
            assert await found(app, "walrus") == ["the walrus number 0"]
        assert await app.index.catch_up() == 1


HOLDER = """
import sys, time
from pathlib import Path
from mcp_memory.store.whoosh.writer import right_to_write

with right_to_write(Path(sys.argv[1])) as mine:
    print(mine, flush=True)
    time.sleep(60)
"""


async def test_the_lock_of_a_dead_process_blocks_no_one(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        await tell(app, [walrus()])
        command = [sys.executable, "-c", HOLDER, str(tmp_path / "whoosh")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
            assert holder.stdout
            assert holder.stdout.readline().strip() == b"True"
            assert await app.index.catch_up() == 0
            holder.kill()
        assert await app.index.catch_up() == 1
        assert await found_by_whoosh(app, "walrus") == ["the walrus number 0"]


async def test_kinds_can_be_switched_back_and_forth(tmp_path: Path) -> None:
    async with memory(tmp_path, "fts5") as app:
        await learn(app, conversation())
        assert not (tmp_path / "whoosh").exists()
    async with memory(tmp_path) as app:
        assert await state(app) == "to be built"
        assert len(await found(app, "timeout")) == 2
        await learn(app, [walrus()])
        assert len(await found_by_whoosh(app, "timeout")) == 2
    async with memory(tmp_path, "fts5") as app:
        assert await found(app, "walrus") == ["the walrus number 0"]
        await app.store.forget(ForgetRequest(match="walrus"), dry_run=False)
        assert await app.pipeline.waits()
        await learn(app, [said("a penguin", "2026-03-06T00:00:00Z", session="p")])
        assert await found(app, "penguin") == ["a penguin"]
        # What is not kept in step any more must not tell what was forgotten.
        assert not (tmp_path / "whoosh").exists()
    async with memory(tmp_path) as app:
        assert await found(app, "penguin") == ["a penguin"]
        await learn(app, [])
        assert await found_by_whoosh(app, "penguin") == ["a penguin"]
        assert await found_by_whoosh(app, "walrus") == []
        assert holding(tmp_path / "whoosh", b"walru") == []


async def test_many_small_commits_leave_few_segments(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        for number in range(80):
            await tell(app, [walrus(number)])
            await app.index.catch_up()
        assert len(list((tmp_path / "whoosh").glob("*.seg"))) <= 8
        assert len(await found_by_whoosh(app, "walrus")) == 50
        assert (await pool_of_all(app)) == {f"the walrus number {number}" for number in range(80)}


async def pool_of_all(app: App) -> set[str]:
    pool = await app.store.pool(terms_of("walrus"), Within(), cited=False, limit=500)
    return {message.text for message in pool.messages[: pool.matched]}


async def test_a_long_history_is_taken_in_by_bounded_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "BATCH", 7)
    async with memory(tmp_path) as app:
        await tell(app, [walrus(number) for number in range(20)])
        steps = []
        while done := await app.index.catch_up():
            steps.append(done)
        assert steps == [7, 7, 6]
        assert len(await pool_of_all(app)) == 20


@pytest.mark.skipif(os.name != "posix", reason="POSIX modes")
async def test_files_belong_to_their_user_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        async with memory(tmp_path) as app:
            await learn(app, conversation())
    finally:
        os.umask(before)
    folder = tmp_path / "whoosh"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


async def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_memory.app.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"pip install '\.\[whoosh\]'"):
        async with memory(tmp_path):
            pass
    async with memory(tmp_path, "fts5") as app:
        await learn(app, conversation())
