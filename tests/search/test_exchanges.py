"""Hits as exchanges: what stands beside a hit, what was said against it, pages, and words in other forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.search.hits import Hit, Results
from tests.support import memory, said, tell


def at(minute: int, day: str = "2026-03-03") -> str:
    return f"{day}T09:{minute:02}:00Z"


async def hits(app: App, query: str) -> list[Hit]:
    return (await app.answers.search(query, "*"))[0].hits


@pytest.mark.anyio
async def test_pages_are_cuts_of_one_list_whatever_the_limit(tmp_path: Path) -> None:
    def named(found: Results) -> list[str]:
        return [hit.id for hit in found.hits]

    lines = [
        said(
            f"The deploy of part {n} failed{' again' * (n % 3)}.",
            at(n % 50, f"2026-03-{2 + n // 50:02}"),
            session=f"s{n}",
        )
        for n in range(90)
    ]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        for query in ("why did the deploy fail again", "how many deploys failed", "part 7 on 2 March"):
            whole, _ = await app.answers.search(query, "*", limit=50)
            first, _ = await app.answers.search(query, "*", limit=20)
            second, _ = await app.answers.search(query, "*", limit=20, cursor="at:20")
            assert [*named(first), *named(second)] == named(whole)[:40]
            assert len(set(named(whole))) == len(named(whole))


@pytest.mark.anyio
async def test_lines_of_one_exchange_are_one_hit_with_how_it_ended(tmp_path: Path) -> None:
    lines = [
        said("Why is the importer slow?", at(1)),
        said("The importer opens a file for each row.", at(2), role="assistant"),
        said("Read: importer.py\nfor row in rows: open(path)", at(3), role="tool"),
        said("Done: it is fast now.", at(4), role="assistant"),
        said("Thanks. Now the exporter.", at(5)),
    ]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        first, *others = await hits(app, "importer slow")
        assert {line.passage.text for line in (first, *first.lines)} >= {"Done: it is fast now."}
        assert len(first.lines) == 2
        assert first.source_ids[0] not in {name for hit in others for name in hit.source_ids}


@pytest.mark.anyio
async def test_what_the_user_contradicted_says_so_and_comes_after_the_contradiction_where_a_reason_is_asked_for(
    tmp_path: Path,
) -> None:
    lines = [
        said("Which cache should the gateway use for sessions?", at(1)),
        said("The gateway should use memcached as the cache for sessions.", at(2), role="assistant"),
        said("No, that is wrong: redis, because sessions must survive a restart.", at(3)),
        said("Switched to redis.", at(4), role="assistant"),
        *(said(f"unrelated talk number {minute}", at(minute), session="other") for minute in range(10, 20)),
    ]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        found = await hits(app, "which cache does the gateway use for sessions")
        assert found[0].passage.text.startswith("The gateway should use memcached")
        contradicted = found[0].contradicted
        assert contradicted is not None
        assert contradicted.passage.text.startswith("No, that is wrong: redis")
        _, page = await app.answers.teleport("which cache does the gateway use for sessions", "*", budget=400, limit=1)
        assert page.text.count("✗ later: grip:") == 1
        settled, page = await app.answers.teleport("why does the gateway use that cache for sessions", "*", budget=600)
        assert settled.hits[0].passage.text.startswith("No, that is wrong: redis")
        assert page.text.count("✗ contradicted by 1") == 1


@pytest.mark.anyio
async def test_an_identifier_is_found_by_its_words_in_a_row(tmp_path: Path) -> None:
    lines = [said(f"the main thing about root number {n} is the repo", at(n % 50), session=f"s{n}") for n in range(30)]
    lines += [said("GetMainRepoRoot walks up the tree.", at(55), session="named", role="assistant")]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        assert (await hits(app, "what does get main repo root do"))[0].session_id == "named"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("asked", "told"), [("README", "READMEs"), ("READMEs", "README"), ("API", "APIs"), ("ids", "ID")]
)
async def test_the_plural_of_an_acronym_is_a_form_of_it(tmp_path: Path, asked: str, told: str) -> None:
    async with memory(tmp_path) as app:
        await tell(app, [said(f"We updated the {told} today.", at(1)), said("Something else.", at(2), session="b")])
        best = (await hits(app, f"which {asked} changed"))[0]
        assert best.matched[0].lower() == asked.lower()
