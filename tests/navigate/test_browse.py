"""Going down by a topic, and the shortened ids by which one goes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.nodes import event_grip_id
from mcp_memory.domain.toc import Level
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.models import tokens
from mcp_memory.navigate.browse import topic_of
from mcp_memory.navigate.sessions import session_page
from tests.support import all_nodes, learn, memory, said

pytestmark = pytest.mark.anyio
UUIDS = ("0a76fbfe-d767-433e-b4b1-a39e044f21e8", "0a76fbfe-0000-433e-b4b1-a39e044f21e8")
ASKED = "how long may the ferry wait for the tide"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    """Twelve days about something else, and one on which the question was answered in passing."""
    lines = [
        said(
            f"Please paint gate {day} of the lock and oil its hinges.", f"2026-03-{day:02}T09:00:00Z", session=f"d{day}"
        )
        for day in range(1, 13)
    ]
    lines += [
        said("Please paint the office and the shed, too.", "2026-03-05T10:00:00Z", session=UUIDS[0]),
        said("By the way, how long may the ferry wait for the tide?", "2026-03-05T10:01:00Z", session=UUIDS[0]),
        said("At most forty minutes, then it sails.", "2026-03-05T10:02:00Z", role="assistant", session=UUIDS[0]),
    ]
    async with memory(tmp_path) as app:
        await learn(app, lines)
        yield app


async def test_the_branch_where_it_was_said_comes_first(app: App) -> None:
    page = await app.answers.toc_root("alpha", ASKED, 400)
    assert re.findall(r"toc:day:[\d-]+", page.text)[0] == "toc:day:2026-03-05"
    assert "how long may the ferry wait" in page.text
    assert "forty minutes" in page.text


async def test_from_the_root_to_the_exact_words_by_a_topic(app: App) -> None:
    node_id = re.findall(r"toc:day:\S+", (await app.answers.toc_root("alpha", ASKED, 300)).text)[0]
    day = await app.answers.get_node(node_id, None, ASKED, 300, None)
    line = next(line for line in day.text.splitlines() if "ferry wait" in line)
    grip = re.findall(r"grip:\S+", line)[0]
    assert "forty minutes" in (await app.answers.expand_grip(grip, 1, 3, 300)).text


async def test_children_are_ordered_by_how_much_they_speak_of_it(app: App) -> None:
    month = await app.answers.get_node("toc:month:2026-03@alpha", None, ASKED, 600, None)
    weeks = re.findall(r"^> (toc:week:[\w-]+)", month.text, re.M)
    assert weeks[0] == "toc:week:2026-W10"


async def test_where_nothing_speaks_of_it_nothing_is_kept_and_that_is_said(app: App) -> None:
    page = await app.answers.browse_time("2026-03-02", "alpha", "zeppelin", 600, None)
    assert "nothing of 1 segment speaks of that" in page.text
    assert "without topic" in page.text
    assert "toc:segment:" not in page.text
    month = (await app.answers.get_node("toc:month:2026-03", "alpha", "zeppelin", 600, None)).text
    assert re.search(r"Nothing of \d weeks beneath speaks of 'zeppelin'", month)
    assert "toc:week" not in month
    assert "without topic" in month
    assert "Nothing is remembered about 'zeppelin'" in (await app.answers.toc_root("alpha", "zeppelin", 300)).text


async def test_a_topic_without_a_word_is_refused(app: App) -> None:
    with pytest.raises(UsageError, match="no word"):
        await app.answers.toc_root("alpha", "?!", 300)


async def test_segments_have_short_ids_before_their_titles_that_can_be_opened(app: App) -> None:
    page = await app.answers.browse_time("2026-03-05", "alpha", None, 900, None)
    names = re.findall(r"^(toc:segment:\S+) \S", page.text, re.M)
    assert [len(name.partition("@")[0]) for name in names] == [len("toc:segment:2026-03-05:") + 10] * 2
    for name in names:
        head = (await app.answers.get_node(name, None, None, 400, None)).text.splitlines()[0]
        assert re.match(r"toc:segment:2026-03-05:\w{26}", head)
    bare = names[1].partition("@")[0]
    assert "session" in (await app.answers.get_node(bare, "*", None, 400, None)).text
    with pytest.raises(NotFound, match="no segment"):
        await app.answers.get_node("toc:segment:2026-03-05:01AAAAAAAA", "alpha", None, 400, None)


async def test_a_session_is_found_by_the_beginning_that_is_shown(app: App) -> None:
    view, _ = await session_page(app.answers, "s:0a76fbfe", 400)
    assert view.session_id == UUIDS[0]
    await learn(app, [said("Another one.", "2026-03-20T09:00:00Z", session=UUIDS[1])])
    with pytest.raises(NotFound, match="several sessions"):
        await session_page(app.answers, "0a76fbfe", 400)


async def test_every_branch_whose_keywords_or_bullets_name_it_is_kept(tmp_path: Path) -> None:
    """Of a word that is everywhere, the best passages lie in few days only."""
    busy = [said(f"Please fix the mooring, it fails: mooring {n}.", f"2026-03-02T{n:02d}:00:00Z") for n in range(24)]
    quiet = [
        said("Please document how the mooring of the northern pier works in pier.md.", f"2026-03-{day:02d}T09:00:00Z")
        for day in range(3, 29)
    ]
    other = [said("Please raise the ticket price of the museum to nine.", "2026-03-30T09:00:00Z", session="s9")]
    async with memory(tmp_path) as app:
        await learn(app, [*busy, *quiet, *other])
        days = [node for node in await all_nodes(app) if node.level is Level.DAY]
        topic = await topic_of(app.store, "mooring", await app.answers.scope("alpha"))
        assert topic
        assert len(topic.hits) < len(days)
        kept = {node.ref.key for node in days if topic.keeps(node)}
    assert kept == {node.ref.key for node in days} - {"2026-03-30"}


def troubled() -> list[dict[str, Any]]:
    """A session in which the user turns calls down with and without words, something fails, and the user stops it."""

    def at(minute: int, role: str, text: str, kind: str | None = None, **facts: Any) -> dict[str, Any]:
        return said(text, f"2026-04-01T09:{minute:02}:00Z", role=role, session="t", event_type=kind, metadata=facts)

    return [
        at(0, "user", "Please clean up the build directory."),
        at(1, "tool", "Bash: ls build\nExit code 2\nls: cannot access 'build'", tool="Bash", failed=True),
        at(2, "assistant", "I will delete the build directory for good."),
        at(3, "tool", "Bash: rm -rf build\nRefused by the user.", tool="Bash", failed=True, refused=True),
        at(4, "user", "no, use trash", refuses="Bash"),
        at(5, "tool", "Read: notes.txt\nnothing of interest", tool="Read"),
        at(6, "tool", "Bash: trash build\nExit code 127\ntrash: command not found", tool="Bash", failed=True),
        at(7, "assistant", "There is no trash here, so I install it."),
        at(8, "tool", "Bash: apt install trash-cli\nRefused by the user.", tool="Bash", failed=True, refused=True),
        at(9, "system", "Interrupted by the user", "assistant_stop", is_interrupt=True),
        at(10, "user", "Leave it as it is."),
        at(11, "system", "API error: overloaded", "assistant_stop", failed=True),
    ]


async def around(app: App, words: str, before: int, after: int, budget: int = 900) -> list[str]:
    """The answer to a grip on the message with these words, line by line."""
    event = next(event for _, event in await app.store.log(0, "alpha", 99) if words in event.text)
    page = await app.answers.expand_grip(event_grip_id(event.timestamp_ms, event.key), before, after, budget)
    assert tokens.count(page.text) <= budget
    return page.text.splitlines()


async def test_refusals_failures_and_interruptions_stand_in_their_place_around_a_grip(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, troubled())
        lines = await around(app, "for good", 1, 3)
        stopped = await around(app, "Leave it", 1, 1)
    assert lines[0].startswith("2026-04-01 09:02 assistant · session t")
    assert lines[2:-1] == [
        "after: [user 09:04] (refused Bash: rm -rf build): no, use trash",
        "after: [tool 09:06] (failed): Bash: trash build → Exit code 127 trash: command not found",
        "after: [assistant 09:07] There is no trash here, so I install it.",
        "after: [user 09:08] (refused Bash: apt install trash-cli)",
        "after: [user 09:09] (interrupted the agent)",
        "after: [user 09:10] Leave it as it is.",
        "before: [user 09:00] Please clean up the build directory.",
        "before: [tool 09:01] (failed): Bash: ls build → Exit code 2 ls: cannot access 'build'",
    ]
    assert stopped[2] == "after: [system 09:11] (failed): API error: overloaded"
    assert stopped[-3:-1] == [
        "before: [user 09:08] (refused Bash: apt install trash-cli)",
        "before: [user 09:09] (interrupted the agent)",
    ]


async def test_the_words_themselves_say_what_they_refuse_or_that_they_failed(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, troubled())
        refusing, alone = await around(app, "no, use trash", 1, 0), await around(app, "no, use trash", 0, 0)
        failed = await around(app, "trash build", 0, 0)
    assert refusing[0].startswith("2026-04-01 09:04 user (refused Bash: rm -rf build) · ")
    assert "rm -rf" not in "".join(refusing[1:]), "the call is told once"
    assert alone[0].startswith("2026-04-01 09:04 user (refused Bash) · ")
    assert failed[0].startswith("2026-04-01 09:06 tool (failed) · ")


async def test_a_script_that_failed_is_told_by_its_first_line_and_its_error(tmp_path: Path) -> None:
    text = "Bash: set -e\ncd build\nmake all\nExit code 2\nmake: missing separator"
    facts = {"tool": "Bash", "failed": True, "call_lines": 3}
    ran = said(text, "2026-04-01T09:01:00Z", role="tool", session="t", metadata=facts)
    async with memory(tmp_path) as app:
        await learn(app, [said("Please build all parts.", "2026-04-01T09:00:00Z", session="t"), ran])
        lines = await around(app, "build all", 0, 1)
    assert "after: [tool 09:01] (failed): Bash: set -e → Exit code 2 make: missing separator" in lines


async def test_failures_do_not_crowd_out_what_was_said(tmp_path: Path) -> None:
    failures = [
        said(
            f"Bash: make part{at}\nExit code 2\n" + "missing separator " * 40,
            f"2026-04-01T09:01:{at:02}Z", role="tool", session="t", metadata={"tool": "Bash", "failed": True},
        )
        for at in range(7)
    ]  # fmt: skip
    answer = said("It is the tabs: make wants tabs.", "2026-04-01T09:02:00Z", role="assistant", session="t")
    async with memory(tmp_path) as app:
        await learn(app, [said("Please build all parts.", "2026-04-01T09:00:00Z", session="t"), *failures, answer])
        lines = await around(app, "build all", 0, 2)
        small = [await around(app, "build all", 0, 2, budget=budget) for budget in range(60, 240, 10)]
    told = [line for line in lines if "(failed)" in line]
    assert [line.partition("make ")[2][:5] for line in told] == ["part0", "part1", "part2"], "the nearest"
    assert all(len(line) < 170 for line in told)
    assert any("make wants tabs" in line for line in lines)
    marked = [sum("(failed)" in line for line in each) for each in small]
    assert marked[0] == 0
    assert marked == sorted(marked)
    assert marked[-1] == 3
    assert all("make wants tabs" in "".join(each) for each, marks in zip(small, marked, strict=True) if marks)


async def test_marks_of_clients_tell_an_outcome_where_metadata_does_not(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        lines = [
            said("Please deploy.", "2026-04-01T09:00:00Z", session="t"),
            said("Bash: deploy\nThe user doesn't want to proceed with this tool use. The tool use was rejected",
                 "2026-04-01T09:01:00Z", role="tool", session="t"),
            said("[Request interrupted by user for tool use]", "2026-04-01T09:02:00Z", session="t"),
            said("Grep: refusal\nreplies.py: The user doesn't want to proceed with this tool use",
                 "2026-04-01T09:03:00Z", role="tool", session="t"),
        ]  # fmt: skip
        await learn(app, lines)
        told = await around(app, "Please deploy", 0, 3)
    assert told[2:4] == ["after: [user 09:01] (refused Bash: deploy)", "after: [user 09:02] (interrupted the agent)"]
    assert "refused" not in "".join(told[4:])
