"""Rolling summaries up into days, weeks, months and years."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.nodes import Bullet, Kind, Node, NodeQuery
from mcp_memory.domain.toc import BULLETS, Level
from mcp_memory.summaries import ExtractiveSummarizer
from mcp_memory.summaries.rollups import roll_up
from tests.summaries.years import year
from tests.support import StoppedClock, learn, memory

from .conversations import node, segment_node

UNDERTAKING = re.compile("adyen|stripe", re.I)

RETRY = segment_node(
    1,
    "Field retry not found in type config.Notarize",
    [
        "Error: line 31: field retry not found in type config.Notarize",
        "The issue is that `retry` is no field of the notarize config",
        "Asked: add it in the github actions level",
        "The release workflow now uses `nick-fields/retry@v3`",
    ],
    ("notarize", "retry", ".goreleaser.yaml", "release workflow"),
)
LICENSE = segment_node(
    2,
    "Check licenses of all dependencies in CI",
    [
        "Asked: check the licenses of all dependencies in CI",
        "Added `license-check.yml`, which fails on copyleft licenses",
        "Still open: the vendored fonts carry no license file",
    ],
    ("license-check.yml", "license", "CI"),
)


def texts(level: Level, *children: object) -> list[str]:
    return [bullet.shown for bullet in roll_up(level, children).bullets]  # type: ignore[arg-type]


def test_the_summarizer_rolls_up_through_the_port() -> None:
    summary = anyio.run(ExtractiveSummarizer().rollup, Level.DAY, [RETRY, LICENSE])
    assert summary == roll_up(Level.DAY, [RETRY, LICENSE])


def test_a_day_tells_of_each_of_its_segments_in_time_order() -> None:
    summary = roll_up(Level.DAY, [RETRY, LICENSE])
    children = [bullet.child_ids[0] for bullet in summary.bullets]
    assert set(children) == {RETRY.node_id, LICENSE.node_id}
    assert children == sorted(children)
    low, high = BULLETS[Level.DAY]
    assert low <= len(summary.bullets) <= high


def test_every_bullet_inherits_the_grips_of_the_bullet_it_came_from() -> None:
    known = {grip: bullet.shown for child in (RETRY, LICENSE) for bullet in child.bullets for grip in bullet.grip_ids}
    for bullet in roll_up(Level.DAY, [RETRY, LICENSE]).bullets:
        assert bullet.grip_ids
        assert known[bullet.grip_ids[0]] in bullet.shown


def test_the_topic_names_the_themes_shortly() -> None:
    topic = roll_up(Level.DAY, [RETRY, LICENSE]).topic
    assert "retry" in topic
    assert "licenses" in topic
    assert all(2 <= len(theme.split()) <= 7 for theme in topic.split(", "))


def test_near_duplicates_become_one_bullet_with_the_grips_of_all() -> None:
    again = segment_node(3, "Retry the notarization", ["The release workflow now uses `nick-fields/retry@v3` again"])
    summary = roll_up(Level.DAY, [RETRY, again])
    merged = [bullet for bullet in summary.bullets if "nick-fields" in bullet.shown]
    assert len(merged) == 1
    assert set(merged[0].child_ids) == {RETRY.node_id, again.node_id}
    assert set(again.bullets[0].grip_ids) < set(merged[0].grip_ids)


def test_a_request_and_its_outcome_share_a_line_of_the_day() -> None:
    child = segment_node(
        4,
        "Verify git hooks",
        [
            "Asked: show when git hooks are verified",
            "Reruns now show that git hooks are verified",
            "The installer wrote four scripts",
            "Windows needs another shebang",
            "Coverage rose slightly",
            "Nightly builds moved to midnight",
        ],
    )
    joined = [text for text in texts(Level.DAY, child) if text.startswith("Asked")]
    assert joined == ["Asked: show when git hooks are verified; Reruns now show that git hooks are verified"]


def test_a_busy_week_keeps_something_of_every_day() -> None:
    days = [
        node(
            Level.DAY, f"2026-01-0{number}", f"Day {number}: {word}", [f"Added the {word} {part}" for part in "abcdef"]
        )
        for number, word in enumerate(["parser", "printer", "scanner", "plotter", "router"], 1)
    ]
    summary = roll_up(Level.WEEK, days)
    assert {child for bullet in summary.bullets for child in bullet.child_ids} == {day.node_id for day in days}


def test_themes_of_days_rise_to_the_week_without_their_dates() -> None:
    days = [
        node(Level.DAY, "2026-01-06", "Tuesday, January 6, 2026: notarization retry", ["Moved the retry"], ("retry",)),
        node(Level.DAY, "2026-01-07", "Wednesday, January 7, 2026: license check", ["Added the check"], ("license",)),
    ]
    topic = roll_up(Level.WEEK, days).topic
    assert set(topic.split(", ")) == {"notarization retry", "license check"}


def test_keywords_shared_by_children_come_first() -> None:
    first = segment_node(1, "A", ["One thing"], ("alpha", "shared"))
    second = segment_node(2, "B", ["Another matter"], ("beta", "shared"))
    assert roll_up(Level.DAY, [first, second]).keywords[0] == "shared"


def day(number: int, topic: str, *told: str) -> Node:
    return node(Level.DAY, f"2026-01-0{number}", f"Monday, January {number}, 2026: {topic}", list(told), (topic,))


def test_a_bullet_among_other_matters_is_told_with_its_own() -> None:
    slow = day(5, "slow checkout page", "The template was compiled for every row", "Rows are rendered in one pass now")
    mail = day(
        6, "invoices mailed twice", "Asked: find out why invoices are mailed twice", "The job retries without a lock"
    )
    assert texts(Level.WEEK, slow, mail) == [
        "Slow checkout page – The template was compiled for every row",
        "Rows are rendered in one pass now",
        "Asked: find out why invoices are mailed twice",
        "The job retries without a lock",
    ]
    assert texts(Level.WEEK, slow) == [bullet.shown for bullet in slow.bullets]


def test_what_rises_above_its_week_keeps_its_matter() -> None:
    told = ["Slow checkout page – The template was compiled for every row", "Rows are rendered in one pass now"]
    days = ("toc:day:2026-01-05", "toc:day:2026-01-05", "toc:day:2026-01-06")
    bullets = tuple(
        Bullet(text, (f"grip:1:{number}",), (source,))
        for number, (text, source) in enumerate(zip([*told, "The job retries without a lock"], days, strict=True))
    )
    made = node(
        Level.WEEK, "2026-W02", "Week of January 5–11, 2026: slow checkout page, invoices mailed twice", [], ("page",)
    )
    week = replace(made, bullets=bullets)
    assert texts(Level.MONTH, week) == [
        told[0],
        "Slow checkout page – Rows are rendered in one pass now",
        "The job retries without a lock",
    ]


def test_a_rollup_of_nothing_is_empty() -> None:
    summary = roll_up(Level.YEAR, [])
    assert (summary.topic, summary.bullets, summary.keywords) == ("", (), ())


WORDS = st.sampled_from("Asked: fix parser error added retry because open 日本 token, cache; `x` the of".split())
SENTENCES = st.lists(WORDS, min_size=1, max_size=9).map(" ".join)
CHILDREN = st.lists(st.tuples(SENTENCES, st.lists(SENTENCES, max_size=5), st.lists(WORDS, max_size=5)), max_size=7)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR]), CHILDREN)
def test_a_rollup_invents_nothing_and_repeats_nothing(
    level: Level, made: list[tuple[str, list[str], list[str]]]
) -> None:
    children = [segment_node(number, title, lines, tuple(words)) for number, (title, lines, words) in enumerate(made)]
    summary = roll_up(level, children)
    assert summary == roll_up(level, children)
    assert len(summary.bullets) <= BULLETS[level][1]
    grips = {grip for child in children for bullet in child.bullets for grip in bullet.grip_ids}
    for bullet in summary.bullets:
        assert set(bullet.grip_ids) <= grips
        assert bullet.grip_ids
        assert set(bullet.child_ids) <= {child.node_id for child in children}
        assert bullet.child_ids
    shown = [bullet.shown for bullet in summary.bullets]
    assert len(shown) == len(set(shown))
    assert bool(shown) == any(child.bullets for child in children)
    assert len(summary.keywords) <= 7


@pytest.mark.anyio
async def test_a_year_tells_of_its_large_undertaking_and_still_of_other_things(tmp_path: Path) -> None:
    async with memory(tmp_path, StoppedClock("2026-06-01T00:00:00Z")) as app:
        await learn(app, year())
        (told,) = await app.store.nodes(NodeQuery.latest(None, Level.YEAR, 9))
        months = {
            month.title.partition(" ")[0]: month
            for month in await app.store.nodes(NodeQuery.latest(None, Level.MONTH, 12))
        }
        weeks = await app.store.nodes(NodeQuery.latest(None, Level.WEEK, 60))
    assert told.weight == sum(month.weight for month in months.values()) == sum(week.weight for week in weeks)
    assert months["June"].weight > 100 * months["March"].weight
    about = [UNDERTAKING.search(bullet.shown) is not None for bullet in told.bullets]
    assert about.count(True) >= 2
    assert about.count(False) >= 2
    first, *others = told.title.partition(": ")[2].split(", ")
    assert UNDERTAKING.search(first)
    assert any(not UNDERTAKING.search(theme) for theme in others)


def test_what_was_said_on_another_day_is_not_placed_under_the_last_request() -> None:
    day = 86_400_000
    week = replace(
        node(Level.WEEK, "2026-W02", "Week of January 5–11, 2026: export tooltip, old client removed", []),
        bullets=(
            Bullet("Change the tooltip of the export button", (f"grip:{day}:a",), ("toc:day",), Kind.REQUEST),
            Bullet("It shows the number of rows", (f"grip:{day + 60_000}:b",), ("toc:day",)),
            Bullet("Removed 3,400 lines of the old client", (f"grip:{3 * day}:c",), ("toc:day",)),
        ),
    )
    other = node(Level.WEEK, "2026-W03", "Week of January 12–18, 2026: menu covers the logo", ["The menu was too wide"])
    told = texts(Level.MONTH, week, other)
    assert "Removed 3,400 lines of the old client" in told
    assert "Change the tooltip of the export button – It shows the number of rows" in told


def test_of_two_days_the_busier_one_names_the_week() -> None:
    mail = node(
        Level.DAY, "2026-01-06", "Tuesday, January 6, 2026: mail queue loses messages", ["The mail queue lost mail"]
    )
    menu = node(
        Level.DAY, "2026-01-07", "Wednesday, January 7, 2026: menu covers the logo", ["The menu covers the logo"]
    )
    for busy, other in ((mail, menu), (menu, mail)):
        days = [replace(day, weight=40_000 if day is busy else 300) for day in (mail, menu)]
        assert roll_up(Level.WEEK, days).topic.startswith(busy.title.partition(": ")[2])
        assert other.title.partition(": ")[2] in roll_up(Level.WEEK, days).topic
