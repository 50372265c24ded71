"""What every index must do: the same questions to FTS5, to Whoosh and to PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.config import Calendar, Index, Settings, StoreSettings
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.nodes import Node, NodeQuery
from mcp_memory.domain.terms import IndexEntry, Pool, Within, terms_of
from mcp_memory.domain.toc import Level
from mcp_memory.store.port import ReadStore
from tests.postgres import new_database
from tests.store.whoosh.indexed import without_fallback
from tests.support import StoppedClock, conversation, learn, needs_whoosh, pool, said, tell

pytestmark = pytest.mark.anyio

LEVELS = frozenset(level.label for level in Level)


@pytest.fixture(params=["fts5", pytest.param("whoosh", marks=needs_whoosh), "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def memory(home: Path, kind: str) -> AsyncIterator[App]:
    """A memory whose questions are answered by the index that is named, and by no other."""
    place = StoreSettings(new_database() if kind == "postgres" else "")
    chosen = Settings(
        home=home, calendar=Calendar("UTC"), index=Index("whoosh" if kind == "whoosh" else "fts5"), store=place
    )
    async with open_app(chosen, cwd=home, clock=StoppedClock()) as app:
        if kind == "whoosh":
            without_fallback(app)
        yield app


async def store(app: App, lines: Iterable[dict[str, Any]]) -> None:
    """Store lines and let the index take them in, without a tree."""
    await tell(app, lines)
    while await app.index.catch_up():
        pass


async def texts(app: App, query: str, **filters: object) -> list[str]:
    found = await pool(app, query, **filters)  # type: ignore[arg-type]
    return [message.text for message in found.messages[: found.matched]]


async def search(
    app: App,
    query: str,
    *,
    project: str | None = None,
    kinds: frozenset[str] | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
    limit: int = 20,
) -> list[IndexEntry]:
    return await app.store.search(terms_of(query), Within(project, start_ms, end_ms), kinds=kinds, limit=limit)


def at(minute: int, day: int = 2) -> str:
    return f"2026-03-{day:02}T09:{minute:02}:00Z"


WRITTEN = (
    "Call refreshToken again",
    "Call refresh_token again",
    "Call refresh-token again",
    "See auth/refresh.token",
    "The refresh token is stale",
)


@pytest.mark.parametrize("asked", ["refreshToken", "refresh_token", '"refresh token"', "RefreshToken()"])
async def test_an_identifier_is_found_however_it_is_written(tmp_path: Path, kind: str, asked: str) -> None:
    async with memory(tmp_path, kind) as app:
        other = said("The token cannot be refreshed in time, so refresh it", at(50), session="s9")
        await store(app, [*(said(text, at(n), session=f"s{n}") for n, text in enumerate(WRITTEN)), other])
        found = await texts(app, asked)
        assert set(WRITTEN) <= set(found)
        # What has the words apart is found by them, and counted apart from the name.
        whole = terms_of(asked)[0].match
        assert abs((await pool(app, asked)).frequencies[whole] - len(WRITTEN)) <= 1


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("Das Café öffnet früh", "cafe"),
        ("The cafe opens early", "café"),
        ("Die ÜBERSICHT fehlt", "übersicht"),
        ("She was running twice", "runs"),
        ("We bought two servers", "buy"),
        ("データベース接続が失敗した", "接続"),
        ("数据库连接超时", "连接超时"),
        ("数据库连接超时", "连"),
        ("ย้ายฐานข้อมูลแล้ว", "ฐานข้อมูล"),
        ("데이터베이스를 옮겼다", "데이터베이스"),
        ("नमस्ते दुनिया", "नमस्ते"),
        ("Ошибка подключения", "ОШИБКА"),
        ("error E4021 in worker-7", "E4021"),
        ("see src/auth/token_store.py", "token_store.py"),
        ("Der Fußball liegt da", "fussball"),
        ("Die Strasse ist gesperrt", "Straße"),
        ("Die Straße ist gesperrt", "Strasse"),
        ("SPAẞ MUSS SEIN", "spass"),
        ("佐々木さんに聞く", "佐々木"),
        ("昼は𠮷野家で食べた", "𠮷野家"),
        ("İstanbul sunucusu", "istanbul"),
        ("the İstanbul server", "İSTANBUL"),
        ("broken by 9f8e7d6c5b4a3f2e", "9f8e7d6c"),
        ("broken by 9f8e7d6", "9f8e7d6c5b4a3f2e"),
        ("collation utf8mb4_0900_ai_ci", "utf8mb4_0900_ai_ci"),
        ("it took 3.5ms", "3.5ms"),
    ],
)
async def test_words_are_found_in_their_forms_and_scripts(tmp_path: Path, kind: str, stored: str, asked: str) -> None:
    async with memory(tmp_path, kind) as app:
        await store(app, [said("nothing of the sort", at(1)), said(stored, at(2), session="s2")])
        assert await texts(app, asked) == [stored]


STRANGE = [
    *('"', "'", "* OR", "AND NOT (", "a:b", "-x", "^y", "~", "NEAR(a b)", "col:{", "[1 TO 2]", "\\", "%", "🙂", "a🙂b"),
    *("word" * 2_500, "x " * 5_000, "\x00\x01", "\ud7ff", "ﬁ", "ß", "İ", "\u202e", "don't", "C++", "…", "  "),
]


@pytest.mark.parametrize("asked", STRANGE)
async def test_any_text_is_a_valid_query(tmp_path: Path, kind: str, asked: str) -> None:
    async with memory(tmp_path, kind) as app:
        await learn(app, conversation())
        await texts(app, asked)
        await search(app, asked)


async def test_any_text_can_be_stored_and_asked_for(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        await learn(app, [said(text, at(n), session=f"s{n}") for n, text in enumerate(STRANGE) if text.strip()])
        for text in STRANGE:
            await texts(app, text)
        assert await texts(app, "don't") == ["don't"]


async def test_terms_are_counted_in_documents(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        await store(app, [said(f"walrus {n}", at(n), session=f"s{n}") for n in range(7)])
        found = await pool(app, "walrus penguin")
        assert list(found.frequencies.values()) == [7, 0]
        assert found.documents == 7


async def test_rarer_words_and_more_of_them_come_first(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        other = [said(f"another thing was done {n}", at(n), session=f"o{n}") for n in range(30)]
        common = [*other, *(said(f"the server started again {n}", at(n), session=f"s{n}") for n in range(10))]
        rare = [said("the gateway failed", at(40), session="a"), said("the server gateway failed", at(41), session="b")]
        await store(app, [*common, *rare])
        found = await texts(app, "server gateway")
        assert found[:2] == ["the server gateway failed", "the gateway failed"]


async def test_what_the_user_said_counts_more(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        roles = ("tool", "assistant", "user")
        await store(app, [said("the gateway failed", at(n), role=role, session=role) for n, role in enumerate(roles)])
        found = await pool(app, "gateway")
        assert [message.role for message in found.messages[: found.matched]] == ["user", "assistant", "tool"]


async def test_what_is_found_is_bounded_by_the_limit(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        await store(app, [said(f"walrus {n}", at(n), session=f"s{n}") for n in range(20)])
        assert (await pool(app, "walrus", limit=5)).matched == 5
        assert len(await search(app, "walrus", limit=5)) == 5


async def test_what_is_said_over_and_over_leaves_room_for_other_words(tmp_path: Path, kind: str) -> None:
    again = "walrus walrus walrus: the walrus was fed, which took {} seconds, and the keeper went home"
    async with memory(tmp_path, kind) as app:
        loud = [said(again.format(n), f"2026-03-02T{n // 60:02}:{n % 60:02}:00Z", session="s1") for n in range(600)]
        quiet = said("there was one walrus among many other animals in that zoo", at(1, 9), session="s2")
        await store(app, [*loud, quiet])
        for project in (None, "alpha"):
            found = await texts(app, "walrus", limit=20, project=project)
            assert quiet["text"] in found[:3]
            assert len(found) == 20


async def test_nodes_do_not_take_the_places_of_events(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        await learn(app, [said(f"walrus {n}", at(n), session=f"s{n}") for n in range(20)])
        assert (await pool(app, "walrus", limit=5)).matched == 5


async def test_how_rare_a_word_is_is_told_by_what_was_said(tmp_path: Path, kind: str) -> None:
    def written(number: int, role: str, word: str) -> dict[str, Any]:
        return said(f"the {word} again {number}", at(number), role=role, session=f"{role} {word}")

    async with memory(tmp_path, kind) as app:
        lines = [
            *(written(n, "tool", "harbour") for n in range(50)),
            *(written(n, "user", "harbour") for n in range(4)),
        ]
        await store(app, [*lines, *(written(n, "tool", "river") for n in range(7))])
        found = await app.store.pool(terms_of("harbour river lake"), Within(), cited=False, limit=5)
        assert list(found.frequencies.values()) == [4, 7, 0]


async def test_a_message_knows_the_users_message_that_opened_its_turn(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        await store(
            app,
            [
                said("a walrus at the start", at(1), role="assistant"),
                said("find the walrus", at(2)),
                said("no walrus here", at(3), role="tool"),
                said("there is no walrus", at(4), role="assistant"),
                said("look for a walrus again", at(5)),
            ],
        )
        found = sorted((await pool(app, "walrus")).messages, key=lambda message: message.number)
        numbers = [message.number for message in found]
        assert [message.turn for message in found] == [0, numbers[1], numbers[1], numbers[1], numbers[4]]
        closings = await app.store.closings([message.turn for message in found if message.turn])
        assert {turn: event.text for turn, event in closings.items()} == {numbers[1]: "there is no walrus"}


async def test_neighbours_are_messages_of_the_same_session(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        await learn(app, [*conversation(), said("elsewhere", "2026-03-02T09:04:10Z", session="s2")])
        found = await pool(app, "mobile")
        messages = {message.number: message for message in found.messages}
        (beside,) = found.beside.values()
        assert [messages[number].text[:12] for number in beside] == ["The cause is", "I will look ", "All 12 sessi"]


async def test_project_time_and_citation_filter(tmp_path: Path, kind: str) -> None:
    march, later = 1_772_409_600_000, 1_772_668_800_000  # 2 and 5 March 2026
    async with memory(tmp_path, kind) as app:
        await learn(app, [*conversation(), *conversation("2026-03-05", "s2", "beta")])
        assert len(await texts(app, "timeout")) == 4
        assert {message.session for message in (await pool(app, "timeout", project="beta")).messages} == {2}
        assert await texts(app, "timeout", project="nowhere") == []
        assert await texts(app, "timeout", start_ms=0, end_ms=march) == []
        assert len(await texts(app, "timeout", start_ms=march, end_ms=later)) == 2
        cited = await pool(app, "session ttl", cited=True)
        read = await app.store.candidates([message.number for message in cited.messages])
        assert read
        assert all(candidate.grip_id for candidate in read.values())


async def test_a_filter_reaches_what_many_better_documents_hide(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        loud = [said("walrus walrus walrus", f"2026-03-02T{n // 60:02}:{n % 60:02}:00Z") for n in range(700)]
        quiet = said("there was one walrus among many other animals there", at(1, 9), session="q", project="beta")
        await learn(app, [*loud, quiet])
        assert await texts(app, "walrus", project="beta", limit=10) == [quiet["text"]]
        day = [candidate.project for candidate in await search(app, "walrus", project="beta", kinds=LEVELS)]
        assert set(day) == {"beta"}


async def test_nodes_of_each_level_are_found_by_kind_and_time(tmp_path: Path, kind: str) -> None:
    march = 1_772_409_600_000
    async with memory(tmp_path, kind) as app:
        await learn(app, conversation())
        found = await search(app, "login timeout", kinds=LEVELS)
        assert {candidate.kind for candidate in found} == LEVELS
        assert {candidate.kind for candidate in await search(app, "timeout", kinds=frozenset({"day"}))} == {"day"}
        assert {candidate.kind for candidate in await search(app, "timeout", kinds=frozenset({"event"}))} == {"event"}
        assert "event" in {candidate.kind for candidate in await search(app, "timeout")}
        within = await search(app, "timeout", kinds=LEVELS, start_ms=march, end_ms=march + 86_400_000)
        assert {candidate.kind for candidate in within} == {"segment", "day"}
        assert await search(app, "timeout", kinds=LEVELS, start_ms=0, end_ms=march) == []


async def test_what_is_read_at_once_is_the_same_as_what_is_read_one_by_one(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        await store(app, conversation())

        async def look(reader: ReadStore) -> tuple[Pool, list[str]]:
            found = await reader.pool(terms_of("login timeout"), Within(), cited=False, limit=5)
            assert await reader.candidates([message.number for message in found.messages])
            return found, await reader.at_once(lambda again: again.slugs())

        found, slugs = await app.store.at_once(look)
        assert found.matched
        assert found == await pool(app, "login timeout", limit=5)
        assert slugs == ["alpha"]


async def test_a_replaced_version_is_not_found_any_more(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        await learn(app, [said("Start the import.", at(0)), said("Resume the nightly backup.", at(50))])
        await learn(app, [said("Still running the import.", at(25))])
        segments = await search(app, "resume", project="alpha", kinds=frozenset({"segment"}))
        current = await app.store.nodes(NodeQuery.latest("alpha", Level.SEGMENT, 9))
        assert [found.node.node_id for found in segments if found.node] == [node.node_id for node in current]
        for level in Level:
            keys = [found.node.ref.key for found in await search(app, "import", kinds=frozenset({level.label}))]  # type: ignore[union-attr]
            assert len(keys) == len(set(keys)) == 1


async def test_what_was_forgotten_is_not_found(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        await learn(app, [*conversation(), said("the secret walrus", at(1), session="s2")])
        assert await texts(app, "walrus")
        assert await search(app, "walrus", kinds=LEVELS)
        await app.store.forget(ForgetRequest(match="walrus"), dry_run=False)
        await learn(app, [])
        assert await texts(app, "walrus") == []
        assert await search(app, "walrus") == []
        assert await texts(app, "timeout")


def name_of(found: IndexEntry) -> str:
    return found.document.node_id if isinstance(found.document, Node) else found.document.event_id


async def test_a_rebuilt_tree_is_found_once(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        await learn(app, [*conversation(), *conversation("2026-04-14", "s2")])
        before = [name_of(found) for found in await search(app, "login timeout", limit=99)]
        await app.store.rebuild("UTC")
        await learn(app, [])
        after = [name_of(found) for found in await search(app, "login timeout", limit=99)]
        assert sorted(after) == sorted(before)


async def test_a_session_is_found_in_the_project_it_was_moved_to(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path, kind) as app:
        await learn(app, [*conversation(), *conversation("2026-03-05", "s2", "beta")])
        await app.store.merge("beta", "alpha")
        await learn(app, [])
        assert len(await texts(app, "timeout", project="alpha")) == 4


async def test_of_an_endless_message_what_stands_around_the_words_is_offered(tmp_path: Path, kind: str) -> None:
    rows = " ".join(f"row {n} is as it was." for n in range(1_000))
    async with memory(tmp_path, kind) as app:
        text = f"{rows} The walrus bit the keeper. {rows}"
        await store(app, [said(text, at(1)), said(f"A penguin came by. {rows}", at(2), session="s2")])
        (found,) = await texts(app, "walrus")
        assert "is as it was. The walrus bit the keeper. row 0 is" in found
        assert found.startswith(text[:500])
        assert len(found) < 6_100
        (other,) = await texts(app, "penguin")
        assert f"A penguin came by. {rows}".startswith(other)


async def test_the_middle_of_a_long_tool_result_is_found_and_of_an_endless_one_head_tail_and_errors(
    tmp_path: Path, kind: str
) -> None:
    async with memory(tmp_path, kind) as app:
        log = [f"line {n} of the log says obscure{n}" for n in range(1_400)]
        text = "\n".join(["beginning", *log[:700], "ERROR: valve stuck", *log[700:], "ending"])
        await store(app, [said(text, at(1), role="tool")])
        for word in ("beginning", "valve", "ending"):
            assert await texts(app, word)
        (found,) = await texts(app, "obscure450")
        assert "line 450 of the log" in found
        assert len(found) < 5_000
        assert await texts(app, "obscure900") == []
