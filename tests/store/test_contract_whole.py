"""The contract of a store as a whole: one moment for one answer, spending, leases, forgetting, what is made anew."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC
from functools import partial
from pathlib import Path

import anyio
import pytest

from mcp_memory.domain.events import EventQuery
from mcp_memory.domain.failures import segment_failure
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.nodes import NodeQuery, Revising
from mcp_memory.domain.segments import Rules, SavedCut, busy
from mcp_memory.domain.terms import Ranked, Standing, Within
from mcp_memory.domain.toc import Level
from mcp_memory.errors import CapReached, LeaseLost, UsageError
from mcp_memory.models.port import Ledger, PlannedCall
from mcp_memory.pipeline.rollup import rollup
from mcp_memory.pipeline.segment import segment, summarize, write_segments
from mcp_memory.store.port import ReadStore, Share, Store
from mcp_memory.store.sql.lease import HeldLease
from mcp_memory.store.sqlite.store import SqliteStore
from mcp_memory.summaries import ExtractiveSummarizer
from tests.store.engines import (
    DAY_REF,
    ENGINES,
    HOUR,
    LATER,
    START,
    Open,
    add,
    build,
    count_all,
    long_talk,
    said,
    talk,
    texts,
)
from tests.support import StoppedClock

pytestmark = pytest.mark.anyio


async def test_one_answer_is_read_from_one_moment(opened: Open) -> None:
    """A writer commits between two reads of one answer, which sees nothing of it; the next answer sees all."""
    reading, written = threading.Event(), threading.Event()

    async def twice(reader: ReadStore) -> tuple[int, int]:
        first = len(await reader.events(EventQuery()))
        reading.set()
        assert written.wait(20)
        return first, len(await reader.log(0, None, 99))

    async with opened() as store, opened() as other:
        await add(store, said("One.", 0))
        seen: list[tuple[int, int]] = []

        async def answer() -> None:
            seen.append(await store.at_once(twice))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            await anyio.to_thread.run_sync(reading.wait, 20)
            await add(other, said("Two.", 1))
            await add(store, said("Three.", 2))
            written.set()
        seen.append(await store.at_once(twice))
    assert seen == [(1, 1), (3, 3)]


async def test_what_is_read_at_once_is_what_is_read_one_by_one(opened: Open) -> None:
    async with opened() as store:
        await add(store, *talk())
        await build(store)

        async def read(reader: ReadStore) -> list[object]:
            nodes = await reader.nodes(NodeQuery("alpha"))
            return [nodes, await reader.events(EventQuery()), await reader.position(), await reader.slugs()]

        assert await store.at_once(read) == await read(store)
        # Whoever has one moment already stays in it.
        assert await store.at_once(lambda reader: reader.at_once(read)) == await read(store)


async def test_words_and_silence_are_told_by_what_was_said(opened: Open) -> None:
    async with opened() as store:
        await add(store, *talk(), said("The cache again.", 5))
        assert await store.known(["cache", "zeppelin"]) == {"cache": 3}
        assert await store.is_silent(Within("alpha", START + HOUR, START + 2 * HOUR))
        assert await store.is_silent(Within("nowhere", START, START + HOUR))
        assert not await store.is_silent(Within("alpha", START, START + HOUR))


# spending


def call(tokens: int) -> PlannedCall:
    return PlannedCall("segment", "toc:day:2026-03-02", "test-model", tokens, 100)


async def test_two_processes_together_do_not_spend_more_than_the_cap(opened: Open) -> None:
    refused: list[str] = []

    async def spend(ledger: Ledger) -> None:
        for _ in range(4):
            try:
                await ledger.reserve(call(200))
            except CapReached as error:
                refused.append(str(error))

    async with opened() as one, opened() as two:
        ledgers = [store.ledger(StoppedClock(), UTC, 1_500, {}) for store in (one, two)]
        async with anyio.create_task_group() as tasks:
            for ledger in ledgers:
                tasks.start_soon(spend, ledger)
        assert (len(refused), await ledgers[0].room()) == (3, 0)


async def test_what_a_call_took_is_settled_and_its_answer_kept(opened: Open) -> None:
    clock = StoppedClock()
    async with opened() as store:
        ledger = store.ledger(clock, UTC, 1_000, {"test-model": (1.0, 5.0)})
        number = await ledger.reserve(call(500))
        assert await ledger.room() == 400
        await ledger.settle(number, "ok", 300, 50, 9)
        assert await ledger.answer("question") is None
        await ledger.keep("question", "answer")
        await ledger.set_state("breaker", {"failures": 2})
        facts = (await ledger.facts())["llm"]
        assert (await ledger.room(), await ledger.answer("question")) == (650, "answer")
        assert (await ledger.state("breaker"), await ledger.state("other")) == ({"failures": 2}, {})
        assert (facts["calls"], facts["today"], facts["cost"]) == (1, 350, 0.0006)
        clock.move(days=1)
        assert await ledger.room() == 1_000


async def test_an_answer_that_comes_after_something_was_forgotten_is_not_kept(opened: Open) -> None:
    """It may quote that: the model was asked before."""
    async with opened() as store:
        await add(store, said("The osprey plan is secret.", 0))
        ledger = store.ledger(StoppedClock(), UTC, 1_000, {})
        assert await ledger.answer("question") is None
        await store.forget(ForgetRequest(match="osprey"), dry_run=False)
        await ledger.keep("question", "The osprey plan.")
        assert await ledger.answer("question") is None
        await ledger.keep("question", "There is no plan.")
        assert await ledger.answer("question") == "There is no plan."


# work

#: The revision of the summarizer, and a later one.
NOW = ExtractiveSummarizer.revision
NEXT = NOW + 1


async def test_there_is_work_until_all_is_in_the_tree(opened: Open) -> None:
    async def waits(store: Store) -> bool:
        return await store.has_work(LATER, busy(LATER), LATER - HOUR)

    async with opened() as store:
        assert not await waits(store)
        await add(store, *talk())
        assert await waits(store)
        await build(store)
        lease = store.lease()
        assert await lease.acquire()
        assert lease.token
        await store.settle_accounts(await store.accounts_due(LATER, 9), lease.token)
        for source in await store.outdated_briefs(9):
            await store.settle_brief(source, lease.token)
        assert not await waits(store)


async def test_what_an_earlier_revision_wrote_is_offered_newest_first_and_a_period_after_what_lies_beneath(
    opened: Open,
) -> None:
    async with opened() as store:
        for day in range(3):
            await add(store, *talk(f"s{day}", day))
        await build(store)
        assert await store.outdated(NOW, 99) == ([], [])
        jobs, periods = await store.outdated(NEXT, 2)
        assert ([job.session_id for job in jobs], periods) == (["s2", "s1"], [])
        assert await store.has_work(LATER, busy(LATER), LATER - HOUR, NEXT)
        sessions = await store.outdated_sessions(NEXT, 2, 0, ())
        assert await store.outdated_sessions(NEXT, 2, 0, [sessions[0].session]) == sessions[1:]
        assert [[segment.key for segment in one.stored] for one in sessions] == [
            [jobs[1].segment.key],
            [jobs[0].segment.key],
        ]
        assert [(one.start, len(one.marks)) for one in sessions] == [(0, 2), (0, 2)]
        assert await store.jobs_of([jobs[0].segment.key]) == jobs[:1]
        lease = store.lease()
        assert await lease.acquire()
        assert lease.token
        await store.set_aside([segment_failure(job, ValueError()) for job in jobs], LATER, lease.token, NEXT)
        assert (await store.counts()).revisions == {NOW: 3 + 3 - 2 + 3, NEXT: 2}
        jobs, periods = await store.outdated(NEXT, 99)
        assert [job.session_id for job in jobs] == ["s0"]
        assert [period.ref.node_id() for period in periods] == ["toc:day:2026-03-04", "toc:day:2026-03-03"]
        assert all(len(period.children) == 1 for period in periods)


async def test_what_a_model_wrote_is_never_outdated(opened: Open) -> None:
    async with opened() as store:
        await add(store, *long_talk())
        await build(store)
        [upgrade] = await store.upgrades(9, LATER)
        [node] = await store.nodes(NodeQuery("alpha", (upgrade.ref,)))
        assert await store.save_upgrade(upgrade, replace(node, written_by="model"), None, ())
        jobs, periods = await store.outdated(NEXT, 99)
        assert jobs == []
        assert [period.ref for period in periods] == [DAY_REF]
        assert await store.outdated_sessions(NEXT, 99, 0, ()) == []


async def test_only_a_parent_that_is_up_to_date_hears_of_what_was_written_anew(opened: Open) -> None:
    class Later(ExtractiveSummarizer):
        revision = NEXT

    async with opened() as store:
        await add(store, *talk("a"), *talk("b"))
        await build(store)
        lease = store.lease()
        assert await lease.acquire()
        share = Share(lease, math.inf)
        with_later = Later(), UTC, count_all, LATER, share
        save = partial(store.save_segments, revising=Revising(NEXT))
        await write_segments((await store.outdated(NEXT, 1))[0], save, *with_later)
        assert await store.stale(Level.DAY, 9) == []
        await add(store, said("And one more.", 3, session="c"))
        await segment(store, Rules(), LATER, share.token)
        await summarize(store, *with_later, 0)
        await rollup(store, *with_later)
        assert (await store.outdated(NEXT, 9))[1] == []
        await write_segments((await store.outdated(NEXT, 9))[0], save, *with_later)
        assert [stale.ref for stale in await store.stale(Level.DAY, 9)] == [DAY_REF]
        assert await store.outdated(NEXT, 9) == ([], [])


async def test_a_memory_tells_which_it_is_and_how_far_its_log_reaches(opened: Open) -> None:
    async with opened() as store, opened() as other:
        name, reached = await store.identity()
        await add(store, *talk())
        again, further = await other.identity()
        assert (again, further > reached) == (name, True)
        await store.forget(ForgetRequest(match="a"), dry_run=False)
        assert (await store.identity())[1] >= further


async def test_a_lease_has_one_holder_and_who_lost_it_cannot_write(opened: Open) -> None:
    async with opened() as store, opened() as other:
        lease, another, third = store.lease(), other.lease(), other.lease("else")
        assert (await lease.acquire(), await third.acquire()) == (True, True)
        token = lease.token
        assert token
        await add(store, *talk())
        cuts: list[SavedCut] = [(cutting, [], []) for cutting in await store.dirty(9, 0)]
        await lease.release()
        assert await another.acquire()
        assert another.holds()
        assert another.token
        assert another.token > token
        for write in (store.save_cuts(cuts, token), store.settle_accounts(await store.accounts_due(LATER, 9), token)):
            with pytest.raises(LeaseLost):
                await write
        assert len(await store.dirty(9, 0)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="a process table that can be asked")
async def test_a_dead_process_of_this_machine_holds_nothing(opened: Open) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    async with opened() as store:
        dead, elsewhere, living = store.lease("one"), store.lease("two"), store.lease("one")
        assert isinstance(dead, HeldLease)
        assert isinstance(elsewhere, HeldLease)
        dead.holder, elsewhere.holder = f"{dead.place()}:{ended.pid}", f"elsewhere:{ended.pid}"
        assert (await dead.acquire(), await elsewhere.acquire()) == (True, True)
        assert (await living.acquire(), await store.lease("two").acquire()) == (True, False)


async def test_a_change_by_someone_else_is_told(opened: Open) -> None:
    async with opened() as store, opened() as other:
        before = await store.changes()
        assert await store.changes() == before
        await add(other, said("One.", 0))
        with anyio.fail_after(10):
            while await store.changes() == before:
                await anyio.sleep(0.01)


async def test_a_change_of_ours_is_told_to_whoever_asks_for_it(opened: Open) -> None:
    async with opened() as store:
        before = await store.changes(own=True)
        await add(store, said("One.", 0))
        with anyio.fail_after(10):
            while await store.changes(own=True) == before:
                await anyio.sleep(0.01)


# the memory as a whole


async def test_what_was_forgotten_is_nowhere_and_does_not_come_back(opened: Open) -> None:
    async with opened() as store:
        secret = said("The osprey plan is secret.", 2, via="transcript")
        await add(store, *talk(), secret, *talk("s2", day=1))
        await build(store)
        then = await store.position()
        assert await store.events_to_forget(ForgetRequest(match="osprey"), 0) == []
        assert [event.key for event in await store.events_to_forget(ForgetRequest(match="osprey"), 9)] == [secret.key]
        counted, _ = await store.forget(ForgetRequest(match="osprey"), dry_run=True)
        assert len(await store.events(EventQuery())) == 5
        done, coverage = await store.forget(ForgetRequest(match="osprey"), dry_run=False)
        assert (counted.events, done) == (1, counted)
        assert coverage.covers(LATER, "/home/ada/alpha", "", "an Osprey")
        assert await store.grip(secret.key, 1, 1) is None
        assert await store.known(["osprey"]) == {}
        assert await store.nodes(NodeQuery("alpha", (DAY_REF,), at=then)) == []
        assert DAY_REF in await store.gone("alpha", [DAY_REF], DAY_REF, then)
        assert await store.erased(then) == (set(), {"s1"})
        retold = said("The osprey plan is secret.", 2.5, via="hook")
        assert (await add(store, secret), await add(store, retold)) == (0, 0)
        await build(store)
        assert await store.nodes(NodeQuery("alpha", (DAY_REF,)))
        assert not await store.scrub(5_000)


@pytest.mark.parametrize(
    ("wish", "left"),
    [
        (ForgetRequest(session_id="s1"), ["Two."]),
        (ForgetRequest(project="beta"), ["One."]),
        (ForgetRequest(before_ms=START + 1), ["Two."]),
        (ForgetRequest(event_key=said("Two.", 1, session="s2").key), ["One."]),
    ],
)
async def test_a_session_a_project_a_time_or_an_event_is_forgotten(
    opened: Open, wish: ForgetRequest, left: list[str]
) -> None:
    async with opened() as store:
        await add(store, said("One.", 0), root="/home/ada/alpha")
        await add(store, said("Two.", 1, session="s2"), root="/home/ada/beta")
        going = [event.text for event in await store.events_to_forget(wish, 9)]
        found, _ = await store.forget(wish, dry_run=False)
        assert (found.events, found.sessions, await texts(store, EventQuery())) == (1, 1, left)
        assert sorted([*going, *left]) == ["One.", "Two."]


async def test_a_rebuild_makes_the_same_tree_in_the_days_of_another_zone(opened: Open) -> None:
    async with opened() as store:
        assert (await store.timezone("Europe/Berlin"), await store.timezone("UTC")) == ("Europe/Berlin",) * 2
        await add(store, *talk())
        await build(store)
        before = await store.nodes(NodeQuery("alpha"))
        await store.rebuild("UTC")
        assert (await store.timezone("Europe/Berlin"), await store.nodes(NodeQuery())) == ("UTC", [])
        await build(store)
        after = await store.nodes(NodeQuery("alpha"))
        assert [(node.ref, node.title, node.bullets) for node in after] == [
            (node.ref, node.title, node.bullets) for node in before
        ]
        assert await store.mend("UTC")
        assert len(await store.nodes(NodeQuery(level=Level.SEGMENT))) == 1


async def test_counts_tell_how_much_of_everything_there_is(opened: Open) -> None:
    async with opened() as store:
        await add(store, *talk(), *talk("s2", day=1))
        await build(store)
        counts = await store.counts()
    assert (counts.projects, counts.sessions, counts.events, counts.segments) == (1, 2, 4, 2)
    assert (counts.dirty_sessions, counts.dirty_segments, counts.dirty_nodes) == (0, 0, 0)
    assert counts.last_event_ms == talk(day=1)[-1].timestamp_ms


async def test_a_copy_holds_what_there_was_and_can_be_opened(tmp_path: Path) -> None:
    async with ENGINES["sqlite"](tmp_path)() as store:
        await add(store, *talk())
        (tmp_path / "copy").mkdir()
        await store.backup(tmp_path / "copy" / "memory.db")
        await add(store, said("Later.", 9))
    async with ENGINES["sqlite"](tmp_path / "copy")() as copy:
        assert len(await copy.events(EventQuery())) == 2


async def test_a_memory_on_a_server_names_what_copies_it(tmp_path: Path) -> None:
    async with ENGINES["postgres"](tmp_path)() as store:
        with pytest.raises(UsageError, match="pg_dump .*--schema=mcp_memory"):
            await store.backup(tmp_path / "memory.dump")


async def test_an_index_with_files_of_its_own_is_told_what_is_new_and_what_is_gone(tmp_path: Path) -> None:
    async with SqliteStore.open(tmp_path / "memory.db", LATER) as store:
        assert await store.index_standing(None) is Standing.UNUSABLE
        await add(store, *talk())
        await build(store)
        first = await store.index_changes(None, 99)
        assert first.standing is Standing.UNUSABLE
        assert {each.is_event for each in first.documents} == {True, False}
        assert await store.index_standing(first.position) is Standing.CURRENT
        assert not (await store.index_changes(first.position, 99)).documents
        await add(store, said("The walrus sleeps.", 3))
        assert await store.index_standing(first.position) is Standing.BEHIND
        (walrus,) = (second := await store.index_changes(first.position, 99)).documents
        assert walrus.columns().user == "The walrus sleeps."
        assert len(await store.matches(Ranked([walrus.number], {}, 9), Within(), None, 9)) == 1
        assert await store.matches(Ranked([walrus.number], {}, 9), Within("beta"), None, 9) == []
        await store.forget(ForgetRequest(match="walrus"), dry_run=False)
        assert await store.index_standing(second.position) is Standing.ERASED
        third = await store.index_changes(second.position, 99)
        assert walrus.number not in third.kept
        assert {each.number for each in first.documents if each.is_event} <= third.kept
        # What it saw last is gone, but it need not be built anew for that.
        assert await store.index_standing(third.position) is Standing.BEHIND
        last = await store.index_changes(third.position, 99)
        assert await store.index_standing(last.position) is Standing.CURRENT


async def test_what_is_new_comes_in_steps_and_a_strange_position_counts_for_none(tmp_path: Path) -> None:
    async with SqliteStore.open(tmp_path / "memory.db", LATER) as store:
        await add(store, *(said(f"Walrus {number}", number) for number in range(7)))
        held, steps = None, []
        while await store.index_standing(held) is not Standing.CURRENT:
            changes = await store.index_changes(held, 3)
            held = changes.position
            steps.append(len(changes.documents))
        assert steps == [3, 3, 1]
        for strange in ("", "{", "[]", '{"event": 99}', '{"what": 1}'):
            assert await store.index_standing(strange) is Standing.UNUSABLE
