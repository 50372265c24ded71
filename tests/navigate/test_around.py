"""What came before or after something that is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.search.around import Around, around
from mcp_memory.search.asked import Search, cursor_of
from tests.support import learn, memory, said

TOLD = [
    said("Draw the icons of the landing page by hand.", "2026-03-01T10:00:00Z", session="icons"),
    said("Write the invoice export as a CSV file.", "2026-03-02T10:00:00Z", session="invoices"),
    said("Run the migration to Postgres tonight.", "2026-03-02T15:00:00Z", session="migration"),
    said("Tune the vacuum of the large tables.", "2026-03-03T09:00:00Z", session="vacuum"),
    said("Answer the survey about keyboards.", "2026-05-01T09:00:00Z", session="survey"),
]


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("What did we do after the migration to Postgres?", Around(True, "the migration to Postgres")),
        ("which things happened right before the outage", Around(False, "the outage")),
        ("Can you tell me what we did after the outage?", Around(True, "the outage")),
        ("Before the outage, what did we do?", Around(False, "the outage")),
        ("what did we do the day before the outage?", Around(False, "the outage")),
        ("What did I ask right before the outage?", Around(False, "the outage", "user")),
        ("what did you tell me after the outage?", Around(True, "the outage", "assistant")),
        ("after the outage what happened next?", Around(True, "the outage")),
        ("After the outage, which tests failed?", None),
        ("Which tests failed after the upgrade?", None),
        ("What was my name before I changed it?", None),
        ("What did we do before that?", None),
        ("after the migration", None),
        ("", None),
    ],
)
def test_only_a_question_that_asks_for_nothing_else_looks_around(query: str, asked: Around | None) -> None:
    assert around(query) == asked


@pytest.mark.anyio
@pytest.mark.parametrize(("how", "session"), [("before", "invoices"), ("after", "vacuum")])
async def test_what_is_named_comes_first_and_then_what_lay_nearest_to_it(
    tmp_path: Path, how: str, session: str
) -> None:
    async with memory(tmp_path) as app:
        await learn(app, TOLD)
        found, _ = await app.answers.search(Search(f"What did we do {how} the migration to Postgres?", "*"))
        assert [(hit.session_id, hit.kind) for hit in found.hits[:2]] == [("migration", "event"), (session, "segment")]
        assert all(hit.score <= found.hits[0].score for hit in found.hits)
        limited, _ = await app.answers.search(Search(f"What did we do {how} the migration to Postgres?", "*", limit=1))
        assert [hit.session_id for hit in limited.hits] == ["migration"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("What did I ask right before the tests failed?", "Rename the widget to gadget."),
        ("What did you say just before the tests failed?", "Renamed it everywhere."),
        ("What did I ask after the tests failed?", "Put the old name back."),
    ],
)
async def test_the_words_beside_something_are_what_is_told_first(tmp_path: Path, query: str, words: str) -> None:
    lines = [
        said("Rename the widget to gadget.", "2026-03-02T10:00:00Z", session="s"),
        said("Renamed it everywhere.", "2026-03-02T10:01:00Z", session="s", role="assistant"),
        said("The tests failed, all forty of them.", "2026-03-02T10:02:00Z", session="s", role="assistant"),
        said("Put the old name back.", "2026-03-02T10:03:00Z", session="s"),
    ]
    async with memory(tmp_path) as app:
        await learn(app, lines)
        found, _ = await app.answers.search(Search(query, "*"))
        assert found.hits[0].passage.text == words
        assert found.hits[1].passage.text == "The tests failed, all forty of them."


@pytest.mark.anyio
async def test_page_by_page_it_is_the_same_list(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, TOLD)
        query = "What did we do before the migration to Postgres?"
        whole, _ = await app.answers.search(Search(query, "*"))
        pages, cursor = list[str](), None
        for _ in range(len(whole.hits) + 1):
            page, _ = await app.answers.search(Search(query, "*", limit=1, cursor=cursor))
            pages += [hit.id for hit in page.hits]
            if page.more is None:
                break
            cursor = cursor_of(page.more)
        assert len(pages) > 2
        assert pages == [hit.id for hit in whole.hits]


@pytest.mark.anyio
async def test_without_a_neighbour_or_a_sure_hit_the_words_are_searched_as_ever(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, TOLD)
        last, _ = await app.answers.search(Search("What did we do after the survey about keyboards?", "*"))
        assert [hit.session_id for hit in last.hits if hit.kind == "event"] == ["survey"]
        assert not any(hit.session_id == "vacuum" for hit in last.hits)
        absent, _ = await app.answers.search(
            Search("What did we do after the yodelling contest of the migration?", "*")
        )
        assert absent.hits[0].session_id == "migration"
        assert not any(hit.session_id == "vacuum" for hit in absent.hits)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("query", "session"),
    [
        ("What did we do after tuning the vacuum of the large tables?", "survey"),
        ("What did we do before the survey about keyboards?", "vacuum"),
    ],
)
async def test_the_nearest_is_found_however_far_away_it_lies(tmp_path: Path, query: str, session: str) -> None:
    async with memory(tmp_path) as app:
        await learn(app, TOLD)
        found, _ = await app.answers.search(Search(query, "*"))
        assert (found.hits[1].session_id, found.hits[1].kind) == (session, "segment")
