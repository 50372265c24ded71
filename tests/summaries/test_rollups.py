"""Rolling summaries up into days, weeks, months and years."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.nodes import Bullet, Kind, Node, NodeQuery
from mcp_memory.domain.toc import BULLETS, Level, NodeRef
from mcp_memory.summaries import ExtractiveSummarizer
from mcp_memory.summaries.rollups import roll_up
from tests.summaries.years import year
from tests.support import StoppedClock, learn, memory

UNDERTAKING = re.compile("adyen|stripe", re.I)
Told = tuple[Kind, str]


def made(ref: NodeRef, title: str, told: tuple[Told, ...], keywords: tuple[str, ...], weight: int) -> Node:
    bullets = tuple(Bullet(text, (f"grip:1:{ref.key}-{index}",), kind=kind) for index, (kind, text) in enumerate(told))
    return Node(ref, "shop", 1, title, 0, 1, bullets, keywords, (), False, "extractive", "hash", weight=weight)


def segment(number: int, title: str, *told: Told, keywords: tuple[str, ...] = (), weight: int = 0) -> Node:
    return made(NodeRef(Level.SEGMENT, f"2026-01-06:{number:026d}"), title, told, keywords, weight)


def day(number: int, topic: str, *told: Told, keywords: tuple[str, ...] = (), weight: int = 0) -> Node:
    ref = NodeRef(Level.DAY, f"2026-01-{number:02d}")
    return made(ref, f"{ref.title}: {topic}" if topic else ref.title, told, keywords, weight)


def month(number: int, topic: str, *told: Told, weight: int = 0) -> Node:
    ref = NodeRef(Level.MONTH, f"2026-{number:02d}")
    return made(ref, f"{ref.title}: {topic}", told, (), weight)


def texts(level: Level, *children: Node) -> list[str]:
    return [bullet.text for bullet in roll_up(level, children).bullets]


def themes(level: Level, *children: Node) -> list[str]:
    return roll_up(level, children).topic.partition(" · ")[0].split("; ")


RETRY = segment(
    1,
    "Retry the notarization in the release workflow",
    (Kind.REQUEST, "why does the release fail since yesterday?"),
    (Kind.CAUSE, "`retry` is no field of the notarize config"),
    (Kind.OUTCOME, "The release workflow now uses `nick-fields/retry@v3`"),
    keywords=(".goreleaser.yaml", "notarize"),
)
LICENSE = segment(
    2,
    "Check licenses of all dependencies in CI",
    (Kind.OUTCOME, "Added `license-check.yml`, which fails on copyleft licenses"),
    (Kind.OPEN, "the vendored fonts carry no license file"),
    keywords=("license-check.yml", "fonts"),
)


def test_the_summarizer_rolls_up_through_the_port() -> None:
    summary = anyio.run(ExtractiveSummarizer().rollup, Level.DAY, [RETRY, LICENSE])
    assert summary == roll_up(Level.DAY, [RETRY, LICENSE])


def test_a_rollup_of_nothing_is_empty() -> None:
    summary = roll_up(Level.YEAR, [])
    assert (summary.topic, summary.bullets, summary.keywords) == ("", (), ())


def test_a_day_tells_all_of_its_segments_in_their_order_if_there_is_room() -> None:
    told = roll_up(Level.DAY, [RETRY, LICENSE]).bullets
    assert [(bullet.kind, bullet.grip_ids) for bullet in told] == [
        (bullet.kind, bullet.grip_ids) for child in (RETRY, LICENSE) for bullet in child.bullets
    ]
    assert [bullet.child_ids for bullet in told] == [(RETRY.node_id,)] * 3 + [(LICENSE.node_id,)] * 2


def test_a_day_is_named_by_the_titles_of_its_segments_and_by_names_that_these_do_not_hold() -> None:
    topic = roll_up(Level.DAY, [RETRY, LICENSE]).topic
    assert topic == f"{RETRY.title}; {LICENSE.title} · .goreleaser.yaml, fonts, notarize"


def test_a_period_with_one_child_says_what_the_child_says() -> None:
    only = day(6, "Slow checkout page; Invoices mailed twice · lock", (Kind.CAUSE, "Jobs retry"), keywords=("lock",))
    summary = roll_up(Level.WEEK, [only])
    assert summary.topic == "Slow checkout page; Invoices mailed twice · lock"
    assert summary.keywords == ("lock",)
    assert [(one.text, one.kind, one.grip_ids) for one in summary.bullets] == [
        (one.text, one.kind, one.grip_ids) for one in only.bullets
    ]


def test_themes_of_days_rise_to_the_week_without_dates_and_names() -> None:
    days = [day(6, "Retry the notarization · goreleaser"), day(7, "Check the licenses in CI · fonts")]
    assert sorted(themes(Level.WEEK, *days)) == ["Check the licenses in CI", "Retry the notarization"]


def test_a_period_without_themes_is_named_by_its_keywords() -> None:
    assert roll_up(Level.WEEK, [day(6, "", keywords=("parser", "dates")), day(7, "")]).topic == "parser, dates"


def test_at_most_three_themes_are_named_and_those_of_most_work_first() -> None:
    works = [
        "Coupons for dates",
        "Labels in the harbour",
        "Barcodes on crates",
        "Maps with tiles",
        "Parcels by bicycle",
    ]
    days = [
        day(number, topic, (Kind.OUTCOME, f"{topic} is done"), weight=1_000 * number)
        for number, topic in enumerate(works, 1)
    ]
    assert themes(Level.WEEK, *days) == works[:1:-1]


def test_a_day_names_each_of_its_sessions_before_it_names_one_twice() -> None:
    rows = [("a", "Fonts of labels"), ("a", "Paper of crates"), ("b", "Coupons in UTC"), ("c", "Maps with tiles")]
    children = [
        replace(
            segment(number, title, (Kind.OUTCOME, "Works now"), weight=1_500 if own == "a" else 500), session_id=own
        )
        for number, (own, title) in enumerate(rows)
    ]
    assert {"Coupons in UTC", "Maps with tiles"} < set(themes(Level.DAY, *children))
    assert themes(Level.DAY, *children)[0] in {title for own, title in rows if own == "a"}


def test_what_recurs_is_named_before_what_came_up_once() -> None:
    rows = ["Rename the colour column", "Paths outside the root", "Loader finds paths outside the root", "New logo"]
    children = [segment(number, title, (Kind.OUTCOME, f"{title}: done")) for number, title in enumerate(rows)]
    assert themes(Level.DAY, *children)[0].lower().endswith("paths outside the root")


def test_what_came_to_something_is_named_before_what_was_only_asked() -> None:
    asked = segment(1, "Colours of the old brochure", (Kind.REQUEST, "which colours had the old brochure?"))
    fixed = segment(2, "Invoices are mailed once", (Kind.OUTCOME, "The mail job takes a lock, so invoices go out once"))
    assert themes(Level.DAY, asked, fixed) == [fixed.title, asked.title]


def test_of_two_days_the_busier_one_names_the_week_first() -> None:
    for busy in (6, 7):
        days = [
            day(number, topic, (Kind.OUTCOME, f"{topic} no longer"), weight=40_000 if number == busy else 300)
            for number, topic in ((6, "Mail queue loses messages"), (7, "Menu covers the logo"))
        ]
        assert themes(Level.WEEK, *days)[0] in days[busy - 6].title


def test_names_behind_the_titles_of_segments_stand_once_behind_all_themes() -> None:
    done = (Kind.OUTCOME, "ok")
    dates = segment(3, "Parser reads dates: parser.py, leap years", done, keywords=("tiles", "parser.py", "leap years"))
    crates = segment(4, "PR 7: Crates weigh less (crates.py)", done, keywords=("tiles", "crates.py"))
    wrong = segment(5, "Printer fails: paper is empty", done, keywords=("tiles", "printer.py"))
    named, _, names = roll_up(Level.DAY, [dates, crates, wrong]).topic.partition(" · ")
    assert set(named.split("; ")) == {"Parser reads dates", "PR 7: Crates weigh less", wrong.title}
    assert names == "leap years, tiles"
    assert roll_up(Level.DAY, [crates]).topic == "PR 7: Crates weigh less · tiles"


def test_what_is_told_in_common_words_gives_way_to_what_names_its_matter() -> None:
    tests = segment(1, "All tests pass and all issues are fixed", (Kind.OUTCOME, "ok"))
    matter = segment(2, "Coupons of the winter sale expire in UTC", (Kind.OUTCOME, "ok"))
    assert themes(Level.DAY, tests, matter)[0] == matter.title


def test_a_vague_title_names_no_period_beside_others() -> None:
    vague = segment(1, "Double check again", (Kind.DECISION, "yes, once more"), weight=9_000)
    assert themes(Level.DAY, vague) == [vague.title]
    assert themes(Level.DAY, vague, LICENSE) == [LICENSE.title]


def test_near_equal_themes_are_named_once() -> None:
    titles = ["Change telemetry default to off", "Change the telemetry default to off", "Rotate the logs weekly"]
    children = [segment(number, title, (Kind.OUTCOME, f"Did: {title}")) for number, title in enumerate(titles)]
    assert len(themes(Level.DAY, *children)) == 2


def test_of_near_equal_themes_the_last_one_names_what_came_of_it() -> None:
    broken = segment(1, "Checkout wipes untracked folders", (Kind.COMMIT, "Try it"), weight=9_000)
    mended = segment(2, "Checkout spares untracked folders", (Kind.COMMIT, "Keep untracked folders"))
    asked = segment(3, "Checkout and untracked folders", (Kind.REQUEST, "explain"))
    assert themes(Level.DAY, broken, mended, asked) == [mended.title]


def test_a_theme_that_would_make_the_title_too_long_gives_way_to_a_shorter_one() -> None:
    long = [
        "Invoices in euros for every shop beyond the border that ships crates with more than one label on each of them",
        "Nightly parcels from the harbour are weighed twice, once on the quay and once more at the scales of the depot",
    ]
    children = [
        segment(number, title, (Kind.OUTCOME, "Done"), weight=9_000 // (number + 1))
        for number, title in enumerate([*long, "Menu covers the logo"])
    ]
    assert themes(Level.DAY, *children) == [long[0], "Menu covers the logo"]


def test_a_title_that_holds_what_stands_between_themes_stays_one_theme() -> None:
    both = segment(1, "Parser reads dates; tests for leap years · 2024", (Kind.OUTCOME, "Both are done"))
    assert themes(Level.DAY, both, RETRY).count("Parser reads dates, tests for leap years, 2024") == 1


def test_near_duplicates_become_one_bullet_in_its_last_wording_with_the_grips_of_all() -> None:
    again = segment(3, "Retry once more", (Kind.OUTCOME, "The release workflow now uses `nick-fields/retry@v4`"))
    merged = [bullet for bullet in roll_up(Level.DAY, [RETRY, again]).bullets if "nick-fields" in bullet.text]
    assert [bullet.text for bullet in merged] == [again.bullets[0].text]
    assert merged[0].child_ids == (RETRY.node_id, again.node_id)
    assert set(merged[0].grip_ids) == {*again.bullets[0].grip_ids, *RETRY.bullets[2].grip_ids}


def test_what_a_later_child_closed_or_mended_is_not_told_as_open() -> None:
    done = segment(3, "Fonts", (Kind.OUTCOME, "Each of the vendored fonts now carries its license file"))
    assert "the vendored fonts carry no license file" in texts(Level.DAY, LICENSE)
    assert "the vendored fonts carry no license file" not in texts(Level.DAY, LICENSE, done)
    # What was said before does not close it.
    assert any("fonts carry no license file" in text for text in texts(Level.DAY, done, LICENSE))


def test_what_the_user_set_right_later_is_told_in_its_last_state() -> None:
    guess = segment(
        1,
        "Coupons expire because of the server clock",
        (Kind.CAUSE, "Coupons expire a day early because the server clock is wrong"),
        (Kind.OUTCOME, "The clock of the test server was set"),
    )
    right = segment(
        2,
        "Coupons are stored in local time",
        (Kind.CORRECTION, "the server clock is fine, coupons expire early because they are stored in local time"),
        (Kind.FIXED, "Coupons are stored in UTC"),
    )
    told = texts(Level.DAY, guess, right)
    assert not any("clock is wrong" in text for text in told)
    assert any("the server clock is fine" in text for text in told)
    assert themes(Level.DAY, guess, right)[0] == right.title
    # What is claimed after it is not what was set right.
    assert any("clock is wrong" in text for text in texts(Level.DAY, right, guess))


def test_a_busy_week_keeps_something_of_every_day() -> None:
    days = [
        day(number, f"The {word}", *[(Kind.OUTCOME, f"Shipped {word}{part}") for part in "abcdef"])
        for number, word in enumerate(["parser", "printer", "scanner", "plotter", "router"], 5)
    ]
    told = roll_up(Level.WEEK, days).bullets
    assert len(told) == BULLETS[Level.WEEK][1]
    assert {child for bullet in told for child in bullet.child_ids} == {day.node_id for day in days}


def test_what_a_segment_says_in_the_same_way_shares_a_line_of_a_full_day() -> None:
    words = ["parser", "printer", "scanner", "plotter", "router"]
    children = [
        segment(
            number,
            f"The new {word}",
            (Kind.REQUEST, f"write a {word} for {number} maps"),
            (Kind.OUTCOME, f"The {word} reads {number} files."),
            (Kind.OUTCOME, f"It writes {number} {word} tables."),
        )
        for number, word in enumerate(words)
    ]
    told = roll_up(Level.DAY, children).bullets
    assert len(told) == BULLETS[Level.DAY][1]
    shared = next(bullet for bullet in told if bullet.text.startswith("The parser reads"))
    assert shared.text == "The parser reads 0 files; It writes 0 parser tables."
    assert shared.grip_ids == (*children[0].bullets[1].grip_ids, *children[0].bullets[2].grip_ids)
    assert not any("write a" in bullet.text for bullet in told if bullet.kind is not Kind.REQUEST)


def test_a_line_of_a_day_that_names_nothing_of_its_segment_stands_behind_its_title() -> None:
    slow = segment(3, "Slow checkout page", (Kind.CAUSE, "The template was compiled for every row"))
    assert texts(Level.DAY, slow) == ["The template was compiled for every row"]
    assert texts(Level.DAY, slow, LICENSE)[0] == "Slow checkout page – The template was compiled for every row"
    by_user = segment(3, "Slow checkout page", (Kind.RULE, "never compile while rendering"))
    assert texts(Level.DAY, by_user, LICENSE)[0] == "never compile while rendering"


def test_a_month_tells_what_came_out_before_what_was_asked() -> None:
    asked = [(Kind.REQUEST, f"which {word} queue should we take?") for word in ("red", "blue", "green", "small")]
    decided = "a Postgres queue instead of RabbitMQ, because one more server is not worth it"
    months = [
        month(1, "Which queue", *asked, (Kind.DECISION, decided)),
        month(2, "Logs", (Kind.OUTCOME, "Added log rotation")),
    ]
    told = roll_up(Level.YEAR, months).bullets
    assert decided in [bullet.text for bullet in told]
    assert sum(bullet.kind is Kind.REQUEST for bullet in told) < len(asked)


def test_keywords_shared_by_children_come_first() -> None:
    children = [segment(number, "Work", keywords=(own, "shared")) for number, own in enumerate(("alpha", "beta"))]
    assert roll_up(Level.DAY, children).keywords[0] == "shared"


def test_a_bullet_of_few_words_gives_way_to_one_that_tells_more() -> None:
    short, long = "Done it", "The parser reads dates of all six regions and their holidays"
    others = [(Kind.NOTE, f"Keep {word} for the audit of next year") for word in ("plans", "bills", "mails", "maps")]
    assert long in texts(Level.YEAR, month(1, "Dates", *others, (Kind.OUTCOME, short), (Kind.OUTCOME, long)))


def test_what_tells_next_to_nothing_is_left_out_beside_others() -> None:
    trivial = segment(3, "Callers", (Kind.FINDING, "More callers"))
    assert texts(Level.DAY, trivial) == ["More callers"]
    assert texts(Level.DAY, trivial, LICENSE)[0].endswith("More callers")
    assert not any("More callers" in text for text in texts(Level.DAY, trivial, LICENSE, RETRY))


def test_a_bullet_without_a_grip_gives_way_to_one_that_has_one() -> None:
    proven = [(Kind.OUTCOME, f"The {word} works") for word in ("parser", "printer", "scanner", "plotter", "router")]
    busy = month(1, "Devices", (Kind.OUTCOME, "The reader works"), *proven)
    unproven = replace(busy, bullets=(replace(busy.bullets[0], grip_ids=()), *busy.bullets[1:]))
    assert "The reader works" in texts(Level.YEAR, busy)
    assert "The reader works" not in texts(Level.YEAR, unproven)


WORDS = st.sampled_from("fix parser error added retry because open 日本 token, cache; `x` the of · –".split())
SENTENCES = st.lists(WORDS, min_size=1, max_size=9).map(" ".join)
TOLD = st.lists(st.tuples(st.sampled_from(list(Kind)), SENTENCES), max_size=5)
CHILDREN = st.lists(st.tuples(SENTENCES | st.just(""), TOLD, st.lists(WORDS, max_size=5)), max_size=7)


@pytest.mark.slow
@given(st.sampled_from([Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR]), CHILDREN)
def test_a_rollup_invents_nothing_and_repeats_nothing(
    level: Level, rows: list[tuple[str, list[Told], list[str]]]
) -> None:
    children = [
        segment(number, title, *told, keywords=tuple(words)) for number, (title, told, words) in enumerate(rows)
    ]
    summary = roll_up(level, children)
    assert summary == roll_up(level, children)
    assert len(summary.bullets) <= BULLETS[level][1]
    grips = {grip for child in children for bullet in child.bullets for grip in bullet.grip_ids}
    for bullet in summary.bullets:
        assert bullet.grip_ids
        assert set(bullet.grip_ids) <= grips
        assert bullet.child_ids
        assert set(bullet.child_ids) <= {child.node_id for child in children}
    shown = [bullet.shown for bullet in summary.bullets]
    assert len(shown) == len(set(shown))
    assert bool(shown) == any(child.bullets for child in children)
    assert len(summary.keywords) <= 7
    assert len(themes(level, *children)) <= 3


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
    first, *others = told.title.partition(": ")[2].partition(" · ")[0].split("; ")
    assert UNDERTAKING.search(first)
    assert any(not UNDERTAKING.search(theme) for theme in others)
