"""From events to the tree: what the stages promise together."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.terms import Within, terms_of
from mcp_memory.domain.toc import Level, NodeRef, ancestors
from mcp_memory.navigate.browse import expand_grip
from mcp_memory.store.sql.database import Transaction
from tests.support import StoppedClock, all_nodes, conversation, database_of, learn, memory, said, tell

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("engine")]


async def versions(app: App, project: str = "alpha") -> dict[str, int]:
    return {node.node_id: node.version for node in await all_nodes(app, project)}


async def test_a_session_of_one_event_reaches_every_level(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [said("Rename the parser module to grammar.", "2026-03-02T09:00:00Z")])
        nodes = await all_nodes(app)
    assert [node.level for node in nodes] == [Level.YEAR, Level.MONTH, Level.WEEK, Level.DAY, Level.SEGMENT]
    assert all("grammar" in node.bullets[0].text for node in nodes)


async def test_every_bullet_of_every_level_reaches_the_words(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation("2026-03-02"), *conversation("2026-04-14", session="s2")])
        nodes = await all_nodes(app)
        assert nodes
        for node in nodes:
            assert node.bullets
            for bullet in node.bullets:
                assert bullet.grip_ids, bullet.text
                for grip_id in bullet.grip_ids:
                    opened = await expand_grip(app.store, grip_id, 1, 1)
                    assert opened.state == "exact"
                    assert opened.record.cited is not None
                    assert opened.record.cited.text[opened.start : opened.end] == opened.record.excerpt


async def test_rerunning_every_stage_changes_nothing(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        before = await versions(app)
        assert await tell(app, conversation()) == 0
        done = await app.pipeline.until_idle()
        assert not done.anything
        assert await versions(app) == before


async def test_a_late_event_rerolls_only_its_ancestors(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        days = ["2026-03-02", "2026-03-04", "2026-03-10", "2026-04-14"]
        await learn(app, [line for day in days for line in conversation(day, session=day)])
        before = await versions(app)
        late = said("One more thing: log the logout too.", "2026-03-04T09:06:00Z", session="2026-03-04")
        await learn(app, [late])
        after = await versions(app)
    changed = {node_id for node_id, version in after.items() if before.get(node_id) != version}
    day = NodeRef(Level.DAY, "2026-03-04")
    expected = {day.node_id(), *(ref.node_id() for ref in ancestors(day))}
    assert {node_id for node_id in changed if not node_id.startswith("toc:segment")} == expected
    assert len(changed) == len(expected) + 1
    assert set(before) <= set(after)


async def test_an_event_between_two_segments_can_join_them_and_the_old_node_leaves_the_tree(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(
            app, [said("Start the import.", "2026-03-02T09:00:00Z"), said("Resume the upload.", "2026-03-02T09:50:00Z")]
        )
        assert len(await app.store.nodes(NodeQuery.latest("alpha", Level.SEGMENT, 9))) == 2
        await learn(app, [said("Still running the import.", "2026-03-02T09:25:00Z")])
        segments = await app.store.nodes(NodeQuery.latest("alpha", Level.SEGMENT, 9))
        day = (await app.store.nodes(NodeQuery.latest("alpha", Level.DAY, 9)))[0]
        gone = await app.store.search(terms_of("upload"), Within("alpha"), kinds=frozenset({"segment"}), limit=9)
    assert len(segments) == 1
    assert day.child_ids == (segments[0].node_id,)
    assert [candidate.node.node_id for candidate in gone if candidate.node] == [segments[0].node_id]


async def test_parallel_sessions_are_never_mixed(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        first = [said(f"alpha step {n}", f"2026-03-02T09:{n:02d}:00Z", session="one") for n in range(0, 20, 2)]
        second = [said(f"beta step {n}", f"2026-03-02T09:{n:02d}:30Z", session="two") for n in range(1, 20, 2)]
        await learn(app, sorted([*first, *second], key=lambda line: str(line["timestamp"])))
        segments = await app.store.nodes(NodeQuery.latest("alpha", Level.SEGMENT, 9))
        for node in segments:
            assert len({bullet.text.split()[-3] for bullet in node.bullets}) == 1
    assert {node.session_id for node in segments} == {"one", "two"}


async def test_overlap_is_context_and_never_cited(tmp_path: Path) -> None:
    filler = "The quick parser reads another record and keeps its offset. " * 60
    async with memory(tmp_path) as app:
        lines = [
            said(f"{filler} Part {n}.", f"2026-03-02T09:0{n}:00Z", role="assistant" if n % 2 else "user")
            for n in range(9)
        ]
        await learn(app, lines)
        segments = sorted(
            await app.store.nodes(NodeQuery.latest("alpha", Level.SEGMENT, 20)), key=lambda node: node.start_ms
        )
        assert len(segments) > 1
        jobs = await app.store.jobs(99, range(0))
        assert not jobs
        for node in segments:
            for bullet in node.bullets:
                for grip_id in bullet.grip_ids:
                    record = (await expand_grip(app.store, grip_id, 0, 0)).record
                    assert record.cited is not None
                    assert node.start_ms <= record.cited.timestamp_ms <= node.end_ms
        counted = await database_of(app).value("SELECT sum(events) FROM segment")
    assert counted == len(lines)


async def test_a_later_segment_knows_what_the_user_asked_for(tmp_path: Path) -> None:
    work = "Another record of the parser was read and its offset was kept. " * 60
    async with memory(tmp_path) as app:
        asked = said("Rewrite the tokenizer for string literals.", "2026-03-02T09:00:00Z", role="user")
        lines = [said(f"{work} Part {n}.", f"2026-03-02T09:{10 + n}:00Z", role="assistant") for n in range(9)]
        await learn(app, [asked, *lines])
        segments = sorted(
            await app.store.nodes(NodeQuery.latest("alpha", Level.SEGMENT, 20)), key=lambda node: node.start_ms
        )
        await database_of(app).write(Transaction.run, "UPDATE segment SET done_hash = ''")
        *_, job = await app.store.jobs(99, range(0))
    assert len(segments) > 1
    assert job.context[0].text == asked["text"]
    assert all(event.text != asked["text"] for event in job.events)


async def test_an_open_period_reads_so_far_and_closes_with_time(tmp_path: Path) -> None:
    clock = StoppedClock("2026-03-02T12:00:00Z")
    async with memory(tmp_path, clock) as app:
        await learn(app, conversation("2026-03-02"))
        day = (await app.store.nodes(NodeQuery.latest("alpha", Level.DAY, 1)))[0]
        assert day.open
        assert day.title.endswith("(so far)")
        clock.move(hours=12, minutes=59)
        await learn(app, [])
        assert (await app.store.nodes(NodeQuery.latest("alpha", Level.DAY, 1)))[0].open
        clock.move(minutes=2)
        await learn(app, [])
        day, week = [
            (await app.store.nodes(NodeQuery.latest("alpha", level, 1)))[0] for level in (Level.DAY, Level.WEEK)
        ]
    assert not day.open
    assert "so far" not in day.title
    assert week.open


async def test_an_open_segment_waits_for_quiet_and_closes_after_the_gap(tmp_path: Path) -> None:
    clock = StoppedClock("2026-03-02T09:05:40Z")
    async with memory(tmp_path, clock) as app:
        await learn(app, conversation("2026-03-02"))
        assert not await all_nodes(app)
        clock.move(seconds=60)
        await learn(app, [])
        segment = (await app.store.nodes(NodeQuery.latest("alpha", Level.SEGMENT, 1)))[0]
        assert segment.open
        assert segment.title.endswith("(so far)")
        clock.move(minutes=30)
        await learn(app, [])
        segment = (await app.store.nodes(NodeQuery.latest("alpha", Level.SEGMENT, 1)))[0]
    assert not segment.open
    assert segment.version == 2


async def test_events_of_a_time_to_come_reach_the_tree_now(tmp_path: Path) -> None:
    async with memory(tmp_path, StoppedClock("2026-11-16T12:00:00Z")) as app:
        await learn(app, conversation("2026-11-18"))
        nodes = {node.level: node for node in await all_nodes(app)}
        assert not await app.pipeline.waits()
    assert nodes[Level.DAY].ref.key == "2026-11-18"
    assert nodes[Level.WEEK].ref.key == "2026-W47"


async def test_a_session_end_closes_the_segment_at_once(tmp_path: Path) -> None:
    clock = StoppedClock("2026-03-02T09:05:40Z")
    end = said("", "2026-03-02T09:05:35Z", role="system", event_type="session_end") | {"text": "other"}
    async with memory(tmp_path, clock) as app:
        await learn(app, [*conversation("2026-03-02"), end])
        assert not (await app.store.nodes(NodeQuery.latest("alpha", Level.SEGMENT, 1)))[0].open


@pytest.mark.parametrize(
    ("day", "week", "month", "year", "title"),
    [
        ("2024-12-30", "2025-W01", "2025-01", "2025", "Week of December 30, 2024 – January 5, 2025"),
        ("2027-01-01", "2026-W53", "2026-12", "2026", "Week of December 28, 2026 – January 3, 2027"),
    ],
)
async def test_days_around_new_year_land_in_the_week_of_their_thursday(
    tmp_path: Path, day: str, week: str, month: str, year: str, title: str
) -> None:
    async with memory(tmp_path, StoppedClock("2027-06-01T00:00:00Z")) as app:
        await learn(app, conversation(day))
        nodes = {node.level: node for node in await all_nodes(app)}
    assert [nodes[level].ref.key for level in (Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR)] == [
        day,
        week,
        month,
        year,
    ]
    assert nodes[Level.WEEK].title.startswith(title)
    for child, parent in ((Level.DAY, Level.WEEK), (Level.WEEK, Level.MONTH), (Level.MONTH, Level.YEAR)):
        assert nodes[parent].start_ms <= nodes[child].start_ms
        assert nodes[child].end_ms <= nodes[parent].end_ms
        assert nodes[parent].child_ids == (nodes[child].node_id,)


@pytest.mark.parametrize(
    ("zone", "before", "after", "hours"),
    [
        ("Europe/Berlin", "2024-03-30T23:30:00Z", "2024-03-31T21:59:00Z", 23),
        ("Europe/Berlin", "2024-10-26T22:30:00Z", "2024-10-27T22:59:00Z", 25),
        ("America/New_York", "2024-03-10T05:30:00Z", "2024-03-11T03:59:00Z", 23),
        ("America/New_York", "2024-11-03T04:30:00Z", "2024-11-04T04:59:00Z", 25),
    ],
)
async def test_a_day_with_a_clock_change_holds_all_its_hours(
    tmp_path: Path, zone: str, before: str, after: str, hours: int
) -> None:
    async with memory(tmp_path, zone=zone) as app:
        await learn(app, [said("Begin the night build.", before), said("End the night build.", after)])
        days = await app.store.nodes(NodeQuery.latest("alpha", Level.DAY, 9))
    assert len(days) == 1
    assert days[0].end_ms - days[0].start_ms == hours * 3_600_000


async def test_a_rebuild_gives_the_same_tree(tmp_path: Path) -> None:

    async with memory(tmp_path) as app:
        await learn(app, [*conversation("2026-03-02"), *conversation("2026-04-14", session="s2")])
        before = [(node.node_id, node.title, node.bullets, node.keywords) for node in await all_nodes(app)]
        await app.store.rebuild("UTC")
        assert not await all_nodes(app)
        await learn(app, [])
        after = [(node.node_id, node.title, node.bullets, node.keywords) for node in await all_nodes(app)]
        hits = await app.store.search(terms_of('"refresh token"'), Within(), kinds=None, limit=9)
    assert after == before
    assert hits


async def test_a_rebuild_can_change_the_time_zone(tmp_path: Path) -> None:

    line = said("Ship the late release.", "2026-03-02T23:30:00Z")
    async with memory(tmp_path) as app:
        await learn(app, [line])
        assert (await app.store.nodes(NodeQuery.latest("alpha", Level.DAY, 1)))[0].ref.key == "2026-03-02"
        await app.store.rebuild("Asia/Tokyo")
    async with memory(tmp_path) as app:
        await learn(app, [])
        assert (await app.store.nodes(NodeQuery.latest("alpha", Level.DAY, 1)))[0].ref.key == "2026-03-03"


async def test_each_project_has_its_own_tree(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), *conversation(session="s2", project="beta")])
        assert {node.project for node in await all_nodes(app, "beta")} == {"beta"}
        assert len(await app.store.nodes(NodeQuery.latest(None, Level.YEAR, 9))) == 2


async def test_so_far_is_said_once(tmp_path: Path) -> None:
    async with memory(tmp_path, StoppedClock("2026-03-02T12:00:00Z")) as app:
        await learn(app, conversation("2026-03-02"))
        titles = [node.title for node in await all_nodes(app) if node.open]
    assert len(titles) == 4
    assert all(title.count("so far") == 1 for title in titles)
