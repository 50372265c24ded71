"""Going down by a topic, and the shortened ids by which one goes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.toc import Level
from mcp_memory.errors import NotFound, UsageError
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
    assert "> toc:week" not in month
    assert "without topic" in month
    assert "Nothing is remembered about 'zeppelin'" in (await app.answers.toc_root("alpha", "zeppelin", 300)).text


async def test_a_topic_without_a_word_is_refused(app: App) -> None:
    with pytest.raises(UsageError, match="no word"):
        await app.answers.toc_root("alpha", "?!", 300)


async def test_segments_after_the_first_are_shortened_and_can_be_opened(app: App) -> None:
    page = await app.answers.browse_time("2026-03-05", "alpha", None, 900, None)
    names = re.findall(r"^toc:segment:\S+", page.text, re.M)
    assert [len(name.partition("@")[0]) for name in names] == [
        len("toc:segment:2026-03-05:") + size for size in (26, 10)
    ]
    for name in names:
        assert (await app.answers.get_node(name, None, None, 400, None)).text.startswith("toc:segment:2026-03-05:")
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
