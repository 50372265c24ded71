"""A session or period that cannot be processed is set aside with its reason, reported, and tried again."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from datetime import tzinfo
from pathlib import Path

import anyio
import pytest

from mcp_memory.app import App
from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Node, RollupSummary, SegmentSummary
from mcp_memory.domain.toc import Level
from mcp_memory.errors import Problem
from mcp_memory.pipeline import loop
from mcp_memory.store.postgres.database import PostgresDatabase
from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.store.sql import failures as stored_failures
from mcp_memory.store.sql.database import Transaction
from mcp_memory.summaries import ExtractiveSummarizer
from mcp_memory.surfaces.doctor import examine
from mcp_memory.surfaces.process_command import process
from tests.support import StoppedClock, all_nodes, conversation, database_of, learn, memory, said, tell

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("engine")]
OPTIONS = Namespace(dry_run=False, json=False, rebuild=False)


class Failing(ExtractiveSummarizer):
    """Cannot cope with the segments of one session, nor with the periods above one of another."""

    async def segment(self, events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
        if any(event.session_id == "odd" for event in events):
            raise IndexError("the words of the session")
        return await super().segment(events, context)

    async def rollup(self, level: Level, children: Sequence[Node]) -> RollupSummary:
        if any(child.session_id == "odd day" for child in children):
            raise IndexError("the words of the day")
        return await super().rollup(level, children)


def found(app: App) -> list[Problem]:
    """What `doctor`, `status` and the health page report of the pipeline."""
    problems = examine(app.settings, thorough=False).problems
    return [problem for problem in problems if "could not" in problem.what or "pauses" in problem.what]


async def sessions(app: App) -> set[str]:
    return {node.session_id for node in await all_nodes(app) if node.session_id}


async def test_a_session_that_cannot_be_summarized_is_reported_until_it_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with memory(tmp_path) as app:
        assert (await process(app, OPTIONS), found(app)) == (0, [])
        assert "Everything is up to date." in capsys.readouterr().out
        app.pipeline.summarizer = Failing()
        await tell(app, [*conversation(session="odd"), *conversation("2026-03-03", session="even")])
        assert await process(app, OPTIONS) == 1
        told = capsys.readouterr().out
        assert "Everything is up to date" not in told
        assert "session odd of alpha could not be summarized\n  IndexError in test_failures.py:" in told
        assert "the words" not in told
        assert "Traceback" not in caplog.text
        assert "mcp-memory process" in told
        assert await sessions(app) == {"even"}
        [failed] = (await app.status())["failed"]
        assert (failed["stage"], failed["what"], failed["project"]) == ("summary", "session odd", "alpha")
        [problem] = found(app)
        assert problem.what == "session odd of alpha could not be summarized"
        # Nothing is done again as long as nothing has changed, and nothing waits.
        assert not (await app.pipeline.until_idle()).anything
        assert not await app.pipeline.waits()
        assert await process(app, OPTIONS) == 1
        app.pipeline.summarizer = ExtractiveSummarizer()
        assert (await process(app, OPTIONS), found(app)) == (0, [])
        assert (await app.status())["failed"] == []
        assert await sessions(app) == {"odd", "even"}


async def test_a_session_that_could_not_be_summarized_is_tried_again_when_it_goes_on(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        app.pipeline.summarizer = Failing()
        await learn(app, conversation(session="odd"))
        assert len(found(app)) == 1
        app.pipeline.summarizer = ExtractiveSummarizer()
        await learn(app, [said("Now write the changelog as well.", "2026-03-02T09:05:00Z", session="odd")])
        assert (found(app), await sessions(app)) == ([], {"odd"})


async def test_a_session_that_could_not_be_summarized_is_tried_again_after_an_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory(tmp_path) as app:
        app.pipeline.summarizer = Failing()
        await learn(app, conversation(session="odd"))
    monkeypatch.setattr(stored_failures, "__version__", "999.0.0")
    async with memory(tmp_path) as app, anyio.create_task_group() as tasks:
        tasks.start_soon(app.pipeline.run)
        while await sessions(app) != {"odd"}:
            await anyio.lowlevel.checkpoint()
        assert found(app) == []
        tasks.cancel_scope.cancel()


async def test_a_day_that_cannot_be_summarized_keeps_no_other_out(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        app.pipeline.summarizer = Failing()
        await learn(app, [*conversation(session="odd day"), *conversation("2026-03-03", session="even")])
        assert {node.ref.key for node in await all_nodes(app) if node.ref.level is Level.DAY} == {"2026-03-03"}
        assert {node.ref.key for node in await all_nodes(app) if node.ref.level is Level.YEAR} == {"2026"}
        assert [problem.what for problem in found(app)] == ["toc:day:2026-03-02 of alpha could not be summarized"]
        app.pipeline.summarizer = ExtractiveSummarizer()
        assert await process(app, OPTIONS) == 0
        days = {node.ref.key for node in await all_nodes(app) if node.ref.level is Level.DAY}
        assert (days, found(app)) == ({"2026-03-02", "2026-03-03"}, [])


async def test_a_session_that_cannot_be_compacted_keeps_no_other_from_it(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        app.pipeline.compactor.quick = Failing()
        for session in ("even", "odd"):
            lines = [
                said(f"Number {n}: {'a long message ' * 400}", "2026-03-02T09:00:00Z", session=session) for n in "ab"
            ]
            await tell(app, [*lines, *conversation(session=session)])
            await database_of(app).write(Transaction.run, "UPDATE dirty_compaction SET asked = 'client'")
        await app.pipeline.until_idle()
        assert [problem.what for problem in found(app)] == ["session odd of alpha could not be compacted"]
        assert (await app.store.compactions()).sessions == 1
        assert "IndexError" in (await app.status())["compactions"]["failed"]
        app.pipeline.compactor.quick = ExtractiveSummarizer()
        assert (await process(app, OPTIONS), found(app)) == (0, [])
        assert (await app.store.compactions()).sessions == 2


async def test_what_an_update_cannot_summarize_again_stays_as_it_was(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(session="odd"), *conversation("2026-03-03", session="odd day")])
        before = {node.node_id: node.title for node in await all_nodes(app)}
        later = Failing()
        later.revision = ExtractiveSummarizer.revision + 1
        app.pipeline.summarizer = later
        assert await process(app, OPTIONS) == 1
        assert {node.node_id: node.title for node in await all_nodes(app)} == before
        assert {problem.what for problem in found(app)} == {
            "session odd of alpha could not be summarized",
            "toc:day:2026-03-03 of alpha could not be summarized",
        }


async def test_a_pipeline_that_fails_again_and_again_is_reported_until_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "RETRY_SECONDS", 0.001)
    async with memory(tmp_path) as app:
        await tell(app, conversation())
        working, tries, thrice = app.pipeline.zone_of_days, list[int](), anyio.Event()

        async def broken() -> tzinfo:
            tries.append(1)
            if len(tries) == 3:
                thrice.set()
            raise ArithmeticError("the words of someone")

        app.pipeline.zone_of_days = broken
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(app.pipeline.run)
            with anyio.fail_after(30):
                await thrice.wait()
            [problem] = found(app)
            assert problem.what == "the pipeline pauses"
            assert "ArithmeticError in test_failures.py" in problem.why
            assert "the words" not in problem.why
            app.pipeline.zone_of_days = working
            with anyio.fail_after(30):
                while found(app):
                    await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert await sessions(app) == {"s1"}


async def test_a_day_that_cannot_be_closed_is_set_aside_once(tmp_path: Path) -> None:
    clock = StoppedClock("2026-03-02T10:00:00+00:00")
    async with memory(tmp_path, clock) as app:
        await learn(app, conversation(session="odd day"))
        app.pipeline.summarizer = Failing()
        clock.move(minutes=3 * 24 * 60)
        with anyio.fail_after(60):
            assert (await app.pipeline.until_idle()).failed == 1
        assert not await app.pipeline.waits()
        assert [problem.what for problem in found(app)] == ["toc:day:2026-03-02 of alpha could not be summarized"]
        [day] = [node for node in await all_nodes(app) if node.ref.level is Level.DAY]
        assert day.open
        app.pipeline.summarizer = ExtractiveSummarizer()
        assert (await process(app, OPTIONS), found(app)) == (0, [])
        assert not [node for node in await all_nodes(app) if node.ref.level is Level.DAY and node.open]


async def test_a_session_that_cannot_be_cut_is_set_aside_once(tmp_path: Path) -> None:
    clock = StoppedClock("2026-03-02T09:05:00+00:00")
    async with memory(tmp_path, clock) as app:
        if isinstance(app.store, PostgresStore):
            pytest.skip("PostgreSQL takes no text for a number of tokens")
        app.pipeline.quiet_ms = 0
        await learn(app, [*conversation(session="odd"), *conversation(session="even")])
        odd = "SELECT id FROM session WHERE session_id = 'odd'"
        sql = f"UPDATE event SET tokens = ? WHERE session IN ({odd})"
        await database_of(app).write(Transaction.run, sql, ("many",))
        clock.move(minutes=120)
        with anyio.fail_after(60):
            assert (await app.pipeline.until_idle()).failed == 1
        assert not await app.pipeline.waits()
        assert [problem.what for problem in found(app)] == ["session odd of alpha could not be cut into segments"]
        await database_of(app).write(Transaction.run, sql, (9,))
        assert (await process(app, OPTIONS), found(app)) == (0, [])


async def test_a_summary_that_the_database_rejects_keeps_no_other_out(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        database = database_of(app)
        if not isinstance(database, PostgresDatabase):
            pytest.skip("a file takes all that is made of what it holds")
        await database.run_alone("""
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.title LIKE '%kite%' THEN RAISE 'no kites' USING ERRCODE = 'string_data_right_truncation'; END IF;
                RETURN NEW;
            END $$
        """)
        await database.run_alone(
            "CREATE TRIGGER refuse BEFORE INSERT ON node_version FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        kite = said("Please build the kite of app/kite.py today.", "2026-03-05T09:00:00Z", session="odd")
        await tell(app, [*conversation(session="even"), kite])
        assert await process(app, OPTIONS) == 1
        assert await sessions(app) == {"even"}
        [problem] = found(app)
        assert problem.what == "session odd of alpha could not be summarized"
        assert "StringDataRightTruncation" in problem.why
