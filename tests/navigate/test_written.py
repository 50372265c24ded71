"""What looks like code or is quoted: found as it is written, before what only has its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.search.asked import Search
from mcp_memory.search.question import question_of
from tests.support import learn, memory, said

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("text", "query", "parts"),
    [
        ("I ran rm -rf build/ by mistake", "rm -rf", "the rf module and rm are unrelated"),
        ("ptr a->b is null there", "a->b null", "a null b"),
        ("released as v1.2.3 last night", "v1.2.3", "released v1.2.30, then 1.2.3 of v1"),
        ("see issue #1234 for the reason", "#1234", "1234 reasons"),
        ("we rewrote it in C++ last year", "C++ rewrite", "a rewrite in C"),
        ("the agent targets .NET 8 now", ".NET 8", "8 nets"),
        ("the service is C# on linux", "C# service", "the C service"),
        ("10.0.3.17 refused it", "10.0.3.17", "10 0 3 17"),
        ("@angular/core 17 breaks", "@angular/core", "angular core breaks"),
        ("__init__.py is empty", "__init__.py", "init py"),
        ("we set strictNullChecks to false", "strictNullChecks", "strict null checks are good"),
        ("commit 9f8e7d6c5b4a3f2e1d0c broke it", "commit 9f8e7d6", "which commit"),
        ('it said "reset by peer while reading" twice', '"reset by peer while reading"', "reading reset while by peer"),
        ("TypeError: x.map is not a function", "TypeError: x.map is not a function", "a map function x: not TypeError"),
    ],
)
async def test_what_is_written_so_comes_before_what_has_its_parts(
    tmp_path: Path, text: str, query: str, parts: str
) -> None:
    lines = [said(text, "2026-03-02T09:00:00Z", role="assistant")]
    lines += [said(parts, f"2026-03-0{day}T09:00:00Z", session=f"s{day}") for day in (3, 4)]
    lines += [said(f"tulips of row {day}", f"2026-03-1{day}T09:00:00Z", session=f"t{day}") for day in range(9)]
    async with memory(tmp_path) as app:
        await learn(app, lines)
        found, _ = await app.answers.search(Search(query, "*"))
        assert found.hits[0].passage.text == text


@pytest.mark.parametrize(
    ("query", "exact"),
    [
        ("why was --no-verify used?", ["--no-verify"]),
        ("Error: x.map is not there", ["x.map", "error: x.map is not there"]),
        ("what is C++?", ["c++"]),
        ("Ann's well, isn't she? Yes.", []),
        ("what did we do (yesterday)?", []),
        ("where is `a b`, and (src/x.py)?", ["a b", "src/x.py"]),
        ("数据库，连接？", []),
        ("deploy 🚀", ["🚀"]),
    ],
)
def test_signs_that_no_sentence_has_tell_code(query: str, exact: list[str]) -> None:
    found = question_of(query).exact
    assert len(found) == len(exact)
    assert all(pattern.search(text) for pattern, text in zip(found, exact, strict=True))


@pytest.mark.parametrize(
    ("query", "text", "told"),
    [
        ("server", "HTTPServer stopped", True),
        ("servers", "the HTTPServer", True),
        ("serve", "the HTTPSERVER", False),
        ("notarize", "in MacOSNotarize it is", True),
        ("1.2.3", "version 11.2.3", False),
        ("1.2.3", "version 1.2.31", False),
        ("1.2.3", "version 1.2.3.", True),
        ("9f8e7d6c", "at 9f8e7d6", True),
        ("9f8e7d6c", "at 9f8e7d6d", False),
        ("9f8e7d6c", "at a9f8e7d6c", False),
        ("fussball", "Der Fußball", True),
        ("straße", "die Strasse", True),
        ("mission", "der Mißion", False),
        ("İstanbul", "in Istanbul", True),
    ],
)
def test_a_word_is_matched_where_it_stands_and_nowhere_else(query: str, text: str, told: bool) -> None:
    assert question_of(query).told(text)[0] is told
