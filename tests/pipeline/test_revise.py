"""After an upgrade: what an earlier summarizer wrote is written anew, once, newest first, and can be read meanwhile."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Node, NodeQuery, RollupSummary, SegmentSummary
from mcp_memory.domain.segments import Rules
from mcp_memory.domain.toc import Level, NodeRef, parse_node_id
from mcp_memory.pipeline.rollup import REVISED
from mcp_memory.summaries import ExtractiveSummarizer
from mcp_memory.surfaces.process_command import until_idle
from tests.models.scripted import honest, scripted
from tests.pipeline.test_upgrade import SIGNED, opened, settle, talk
from tests.support import REPO, StoppedClock, all_nodes, child_environment, conversation, learn, memory, said, tell

pytestmark = pytest.mark.anyio
DAYS = ["2026-03-02", "2026-03-03", "2026-03-12", "2026-04-14"]
TODAY = "2026-04-14T09:20:00Z"


class Later(ExtractiveSummarizer):
    """The summarizer of a later version: its titles say so, and it tells what it was given in which order."""

    revision = ExtractiveSummarizer.revision + 1

    def __init__(self, odd: str = "") -> None:
        self.odd = odd
        self.given: list[str] = []

    async def segment(self, events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
        if events[0].session_id == self.odd:
            raise RecursionError("too odd")
        self.given.append(events[0].session_id)
        found = await super().segment(events, context)
        return replace(found, title=f"Later {found.title}")

    async def rollup(self, level: Level, children: Sequence[Node]) -> RollupSummary:
        self.given.append(level.label)
        found = await super().rollup(level, children)
        return replace(found, topic=f"later {len(children)}: {found.topic}")


class Latest(Later):
    revision = ExtractiveSummarizer.revision + 2


async def grown(app: App, days: Sequence[str] = DAYS) -> None:
    """A tree of the present version, with a session a day."""
    await learn(app, [line for day in days for line in conversation(day, session=day)])


async def rounds(app: App, count: int) -> None:
    assert await app.pipeline.lease.acquire()
    for _ in range(count):
        await app.pipeline.round()
    await app.pipeline.lease.release()


async def untouched(app: App) -> set[str]:
    return {node.node_id for node in await all_nodes(app) if "ater " not in node.title}


@pytest.mark.usefixtures("engine")
async def test_a_tree_is_written_anew_newest_first_and_every_node_once(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await grown(app)
        before = {node.node_id: node.title for node in await all_nodes(app)}
        app.pipeline.summarizer = later = Later()
        done = await app.pipeline.until_idle()
        assert done.nodes == len(before) == 4 + 4 + 3 + 2 + 1
        sessions = [name for name in later.given if name in DAYS]
        assert sessions == DAYS[::-1]
        assert later.given[-1] == "year"
        assert {name: later.given.count(name) for name in ("day", "week", "month", "year")} == {
            "day": 4, "week": 3, "month": 2, "year": 1,
        }  # fmt: skip
        for node in await all_nodes(app):
            assert "ater " in node.title
            history = await app.store.nodes(NodeQuery(node.project, (node.ref,), versions=True))
            assert [(old.version, old.title) for old in history] == [(1, before[node.node_id]), (2, node.title)]
        assert not await app.pipeline.waits()
        assert not (await app.pipeline.until_idle()).anything
        assert (await app.store.counts()).revisions == {Later.revision: len(before)}


async def test_what_is_new_never_waits_for_what_is_old(tmp_path: Path) -> None:
    days = [f"2026-{month:02}-{day:02}" for month in (3, 4) for day in range(1, 30)]
    async with memory(tmp_path) as app:
        await grown(app, days)
        total = len(await all_nodes(app))
        app.pipeline.summarizer = later = Later()
        await rounds(app, 1)
        assert later.given == days[::-1][:REVISED]
        assert (await app.store.counts()).revisions == {
            ExtractiveSummarizer.revision: total - REVISED,
            Later.revision: REVISED,
        }
        await tell(app, [said("Open the harbour gate.", "2026-05-20T09:00:00Z", session="fresh")])
        await rounds(app, 3)
        assert later.given[REVISED : REVISED + 3] == ["fresh", "day", "week"]
        assert len(await untouched(app)) > len(days) / 2
        await app.pipeline.until_idle()
        assert await untouched(app) == set()


async def test_a_period_that_something_new_has_brought_up_to_date_still_gets_what_is_written_anew(
    tmp_path: Path,
) -> None:
    day = NodeRef(Level.DAY, "2026-04-14")
    async with memory(tmp_path, StoppedClock(TODAY)) as app:
        await learn(app, [line for name in "abc" for line in conversation("2026-04-14", session=name)])
        app.pipeline.summarizer = later = Later()
        fresh = said("Open the harbour gate.", "2026-04-14T09:10:00Z", session="fresh")
        await learn(app, [fresh])
        [node] = await app.store.nodes(NodeQuery("alpha", (day,)))
        children = await app.store.nodes(NodeQuery("alpha", parent=day))
        assert all(child.title.startswith("Later ") for child in children)
        assert node.child_ids == tuple(child.node_id for child in children)
        # Once with what was new, once with the others: not once for each of them.
        assert later.given.count("day") == 2
        assert not await app.pipeline.waits()


async def test_a_segment_that_cannot_be_told_anew_stays_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory(tmp_path) as app:
        await grown(app)
        app.pipeline.summarizer = Later(odd=DAYS[1])
        await app.pipeline.until_idle()
        assert "could not be summarized" in caplog.text
        [left] = await untouched(app)
        assert left.startswith(f"toc:segment:{DAYS[1]}")
        assert not await app.pipeline.waits()


async def test_a_segment_that_is_about_to_change_is_not_written_twice(tmp_path: Path) -> None:
    clock = StoppedClock(TODAY)
    async with memory(tmp_path, clock) as app:
        await grown(app)
        busy = said("One more thing.", "2026-04-14T09:19:30Z", session=DAYS[-1])
        app.pipeline.summarizer = later = Later()
        await learn(app, [busy])
        assert DAYS[-1] not in later.given
        assert not await app.pipeline.waits()
        clock.move(minutes=2)
        await app.pipeline.until_idle()
        assert later.given.count(DAYS[-1]) == 1
        assert await untouched(app) == set()


async def test_commands_that_need_the_tree_do_not_wait_for_all_of_it(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await grown(app)
        app.pipeline.summarizer = later = Later()
        await tell(app, [said("Open the harbour gate.", "2026-05-20T09:00:00Z", session="fresh")])
        await until_idle(app)
        assert not set(later.given) & set(DAYS)
        await until_idle(app, revising=True)
        assert await untouched(app) == set()


@pytest.mark.usefixtures("engine")
async def test_what_a_model_wrote_is_left_alone(tmp_path: Path) -> None:
    with scripted(honest) as model:
        async with opened(tmp_path, model) as app:
            await learn(app, [*talk("2026-03-02"), *talk("2026-04-14"), said("Thanks.", "2026-03-02T12:00:00Z")])
            await settle(app)
            before = {node.node_id: node for node in await all_nodes(app)}
            asked = len(model.asked)
            app.pipeline.summarizer = Later()
            await app.pipeline.until_idle()
            after = {node.node_id: node for node in await all_nodes(app)}
            kept = {name for name, node in before.items() if node.written_by == SIGNED}
            assert {name for name in before if after[name].version == before[name].version} == kept
            assert {Level.SEGMENT, Level.DAY} <= {before[name].level for name in kept}
            # What is open or too short for a model is told anew.
            assert await untouched(app) == kept
            await settle(app)
            assert len(model.asked) == asked
            # Until something changes it.
            await learn(app, [said("And one more.", "2026-03-02T09:07:00Z", session="s-2026-03-02")])
            assert await untouched(app) < kept


@pytest.mark.usefixtures("engine")
async def test_sessions_that_would_be_cut_otherwise_by_now_are_cut_anew(tmp_path: Path) -> None:
    finer = Rules(max_tokens=60)
    async with memory(tmp_path / "new") as fresh:
        fresh.pipeline.summarizer, fresh.pipeline.rules = Later(), finer
        await grown(fresh)
        wanted = {node.node_id: node.title for node in await all_nodes(fresh)}
    async with memory(tmp_path / "old") as app:
        await grown(app)
        before = {node.node_id for node in await all_nodes(app)}
        app.pipeline.summarizer, app.pipeline.rules = later, _ = Later(), finer
        await app.pipeline.until_idle()
        nodes = {node.node_id: node for node in await all_nodes(app)}
        assert {name: node.title for name, node in nodes.items()} == wanted
        assert before < set(nodes)
        assert {nodes[name].version for name in before} == {2}
        assert {name: later.given.count(name) for name in ("day", "week", "month", "year")} == {
            "day": 4, "week": 3, "month": 2, "year": 1,
        }  # fmt: skip
        assert not (await app.pipeline.until_idle()).anything
        await app.pipeline.lease.release()
    async with memory(tmp_path / "old") as app:
        app.pipeline.summarizer = Latest()
        await app.pipeline.until_idle()
        # What was joined again has left the tree, and can still be read.
        assert {node.node_id for node in await all_nodes(app)} == before
        [gone, *_] = set(nodes) - before
        ref, _ = parse_node_id(gone)
        history = await app.store.nodes(NodeQuery("alpha", (ref,), versions=True))
        assert [node.removed for node in history] == [False, True]


@pytest.mark.usefixtures("engine")
async def test_a_day_that_no_segment_begins_on_any_more_leaves_the_tree(tmp_path: Path) -> None:
    late = [said("Start the import of the harbour.", "2026-03-02T23:55:00Z")]
    early = [said("It has come to its end.", "2026-03-03T00:05:00Z", role="assistant")]
    async with memory(tmp_path) as app:
        app.pipeline.rules = Rules(max_tokens=1)
        await learn(app, [*late, *early])
        assert len(await app.store.nodes(NodeQuery.latest("alpha", Level.DAY, 9))) == 2
    async with memory(tmp_path) as app:
        app.pipeline.summarizer = Later()
        await app.pipeline.until_idle()
        [day] = await app.store.nodes(NodeQuery.latest("alpha", Level.DAY, 9))
        [week] = await app.store.nodes(NodeQuery.latest("alpha", Level.WEEK, 9))
        assert day.ref.key == "2026-03-02"
        assert (week.child_ids, week.version) == ((day.node_id,), 2)
        assert not await app.pipeline.waits()


async def test_a_session_of_which_a_model_wrote_is_not_cut_anew(tmp_path: Path) -> None:
    with scripted(honest) as model:
        async with opened(tmp_path, model) as app:
            await learn(app, [*talk("2026-03-02"), *conversation("2026-04-14")])
            [upgrade] = [one for one in await app.store.upgrades(9, app.clock.now_ms()) if "03-02" in one.ref.key]
            [node] = await app.store.nodes(NodeQuery("alpha", (upgrade.ref,)))
            signed = replace(node, written_by=SIGNED)
            assert await app.store.save_upgrade(upgrade, signed, None, ())
            app.pipeline.summarizer, app.pipeline.rules = Later(), Rules(max_tokens=60)
            await app.pipeline.until_idle()
            nodes = await app.store.nodes(NodeQuery.latest("alpha", Level.SEGMENT, 99))
            assert [found.written_by for found in nodes if "2026-03-02" in found.node_id] == [SIGNED]
            assert len([found for found in nodes if "2026-04-14" in found.node_id]) > 1


async def test_a_model_is_not_asked_about_what_is_about_to_be_written_anew(tmp_path: Path) -> None:
    with scripted(honest) as model:
        async with opened(tmp_path, model) as app:
            days = [f"2026-03-{day:02}" for day in range(1, 29)]
            await learn(app, [line for day in days for line in talk(day)])
            app.pipeline.summarizer = later = Later()
            assert await app.pipeline.lease.acquire()
            await app.pipeline.round()
            waiting = await app.store.upgrades(99, app.clock.now_ms())
            assert len(later.given) == 28 < len(await untouched(app)) + 28
            assert {upgrade.ref.level for upgrade in waiting} == {Level.SEGMENT}
            await app.pipeline.until_idle()
            assert len(await app.store.upgrades(99, app.clock.now_ms())) == 28


KILLED = """
import os, sys
from pathlib import Path
import anyio
from tests.pipeline.test_revise import Later
from tests.support import memory

class Mortal(Later):
    async def segment(self, events, context):
        if len(self.given) == int(sys.argv[2]):
            os._exit(9)
        return await super().segment(events, context)

    async def rollup(self, level, children):
        if len(self.given) == int(sys.argv[2]):
            os._exit(9)
        return await super().rollup(level, children)

async def main():
    async with memory(Path(sys.argv[1])) as app:
        app.pipeline.summarizer = Mortal()
        await app.pipeline.until_idle()

anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
async def test_whoever_is_killed_is_followed_by_one_who_goes_on(tmp_path: Path) -> None:
    days = [f"2026-{month:02}-{day:02}" for month in (3, 4) for day in range(1, 25)]
    async with memory(tmp_path) as app:
        await grown(app, days)
        total = len(await all_nodes(app))
    for after in (REVISED + 8, 40, 30):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path), str(after)],
            cwd=REPO,
            env=child_environment(tmp_path),
            timeout=120,
        )
        assert done.returncode == 9
        async with memory(tmp_path) as app:
            assert 0 < len(await untouched(app)) < total
    async with memory(tmp_path) as app:
        app.pipeline.summarizer = Later()
        assert (await app.pipeline.until_idle()).nodes
        nodes = await all_nodes(app)
        assert await untouched(app) == set()
        assert {node.version for node in nodes} == {2}
