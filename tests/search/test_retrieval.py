"""Teleport, as it behaves on small memories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from mcp_memory.app import App
from mcp_memory.domain.events import parse_ulid
from mcp_memory.domain.nodes import parse_grip_id, short_grip_id
from mcp_memory.domain.terms import terms_of
from mcp_memory.errors import UsageError
from mcp_memory.search import retrieval
from mcp_memory.search.hits import Hit, RankedEntry
from mcp_memory.search.question import KINDS
from tests.support import conversation, fewer_examples, learn, memory, said, tell


def at(minute: int, day: str = "2026-03-02") -> str:
    return f"{day}T10:{minute:02}:00Z"


async def hits(app: App, query: str, **more: Any) -> list[Hit]:
    found, _ = await app.answers.search(query, "*", **more)
    return found.hits


@pytest.mark.anyio
async def test_the_message_that_answers_comes_first_and_says_what_it_holds(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        best = (await hits(app, "why was the session ttl raised by elephants?"))[0]
        assert "because the mobile app refreshes" in best.passage.text
        assert set(best.matched) >= {"session", "ttl", "raised"}
        assert best.missing == ("elephants",)
        assert best.source_ids[0] == "s1/2026-03-02T09:04:00Z/assistant"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("asked", "told"),
    [("outage", "downtime"), ("delete", "remove"), ("rollback", "undo")]
    + [("k8s", "Kubernetes"), ("kubernetes", "k8s"), ("pull request", "PR")],
)
async def test_a_word_of_the_same_meaning_is_found_but_comes_after_the_word_itself(
    tmp_path: Path, asked: str, told: str
) -> None:
    lines = [said(f"unrelated talk number {minute}", at(minute), session="other") for minute in range(12)]
    lines += [said(f"We shall {told} on Friday", at(20), session="one")]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        best = (await hits(app, asked))[0]
        assert told in best.passage.text
        assert (best.matched, best.missing) == ((), tuple(asked.split()))
        await tell(app, [said(f"We shall {asked} on Friday", at(10), session="two")])
        assert [hit.session_id for hit in (await hits(app, asked))[:2]] == ["two", "one"]


@pytest.mark.anyio
async def test_a_word_that_is_well_known_is_not_looked_for_by_others(tmp_path: Path) -> None:
    lines = [said(f"The outage came at {hour}", at(hour), session=f"s{hour}") for hour in range(4)]
    lines += [said("The downtime came late", at(20), session="one")]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        assert "one" not in [hit.session_id for hit in await hits(app, "outage") if hit.kind == "event"]


@pytest.mark.anyio
async def test_what_is_only_told_by_words_of_the_same_meaning_is_no_sure_hit(tmp_path: Path) -> None:
    lines = [said(f"unrelated talk number {minute}", at(minute), session="other") for minute in range(12)]
    async with memory(tmp_path) as app:
        await tell(app, [*lines, said("The downtime came of a glitch", at(20), session="one")])
        (told,) = [hit for hit in await hits(app, "outage defect") if hit.session_id == "one"]
        await tell(app, [said("The outage came of a defect", at(30), session="two")])
        exact = (await hits(app, "outage defect"))[0]
        assert exact.session_id == "two"
        assert told.score < exact.score


@pytest.mark.anyio
async def test_a_message_is_found_by_what_stands_beside_it(tmp_path: Path) -> None:
    lines = [said(f"unrelated talk number {minute}", at(minute), session="other") for minute in range(12)]
    lines += [
        said("Which colour shall the banner have?", at(20)),
        said("Make it teal, please.", at(21), role="assistant"),
    ]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        best = (await hits(app, "colour of the banner"))[0]
        assert best.passage.text == "Which colour shall the banner have?"
        assert [line.passage.text for line in best.lines] == ["Make it teal, please."]


@pytest.mark.anyio
async def test_a_question_for_a_decision_is_answered_by_what_decides(tmp_path: Path) -> None:
    lines = [said(f"unrelated talk number {minute}", at(minute), session="other") for minute in range(12)]
    lines += [
        said("The banner colour is grey on the old page.", at(20), session="b"),
        said("A teal banner colour instead of grey, then.", at(10), session="a"),
    ]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        assert [hit.session_id for hit in (await hits(app, "banner colour"))[:2]] == ["b", "a"]
        assert (await hits(app, "why did we choose the banner colour"))[0].session_id == "a"


@pytest.mark.anyio
async def test_what_i_did_is_found_in_my_words_and_what_you_told_me_in_yours(tmp_path: Path) -> None:
    lines = [
        said("I parked my bicycle behind the library.", at(0), session="a"),
        said("A bicycle is best parked behind a library, near the door.", at(0), session="b", role="assistant"),
    ]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        assert (await hits(app, "where did I park my bicycle at the library?"))[0].role == "user"
        assert (await hits(app, "where did you say a bicycle is best parked, at the library?"))[0].role == "assistant"


@pytest.mark.anyio
async def test_boilerplate_does_not_crowd_out_what_was_said_once(tmp_path: Path) -> None:
    lines = [said("Deploy checklist: run the deploy tests.", at(minute), session=f"s{minute}") for minute in range(20)]
    lines.append(said("The deploy failed since the disk of the build host was full.", at(30), session="once"))
    async with memory(tmp_path) as app:
        await tell(app, lines)
        assert "once" in [hit.session_id for hit in (await hits(app, "deploy"))[:3]]


@pytest.mark.anyio
async def test_a_time_in_the_question_favours_what_was_said_then(tmp_path: Path) -> None:
    lines = [
        said(f"The cache was changed to {name}.", at(0, day), session=day)
        for day, name in (("2026-02-02", "redis"), ("2026-03-10", "memcached"), ("2026-04-20", "sqlite"))
    ]
    async with memory(tmp_path) as app:
        await learn(app, lines)
        found, note = await app.answers.search("what was the cache changed to on March 10?", "*")
        assert (found.hits[0].passage.text, note) == ("The cache was changed to memcached.", "")
        assert found.when is not None
        dropped, note = await app.answers.search("what was the cache changed to on January 5?", "*")
        assert "January 5" in note
        assert dropped.when is None
        assert len(dropped.hits) >= 3


@pytest.mark.anyio
async def test_a_question_of_time_alone_is_answered_from_the_tree(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        best = (await hits(app, "what did we do on 2 March?"))[0]
        assert best.kind == "segment"
        assert best.source_ids


@pytest.mark.anyio
@pytest.mark.parametrize("more", [{}, {"when": "2 March"}])
async def test_a_question_of_time_alone_is_not_answered_by_its_common_words(
    tmp_path: Path, more: dict[str, str]
) -> None:
    lines = [said(f"What did we do? We did what we do, part {day}.", at(0, f"2026-04-{day}")) for day in range(10, 16)]
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), *lines])
        query = "what did we do?" if more else "what did we do on 2 March?"
        found, page = await app.answers.teleport(query, "*", more.get("when"), limit=10, budget=400)
        assert {hit.kind for hit in found.hits} == {"segment"}
        assert all(hit.node_id.startswith("toc:segment:2026-03-02") for hit in found.hits)
        assert found.hits[0].missing == ()
        assert short_grip_id(parse_ulid(found.hits[0].event_ids[0])[1]) in page.text
        nothing, page = await app.answers.teleport("what did we do on 7 January?", "*", limit=10, budget=400)
        assert nothing.hits == []
        assert "'7 January' = 2026-01-07" in page.text


@pytest.mark.anyio
async def test_of_what_fits_the_newest_comes_first_only_where_it_is_asked_for(tmp_path: Path) -> None:
    budgets = (
        ("2026-02-02", "The budget of the project is 80 hours."),
        ("2026-03-10", "The project got more budget from Nordwind: 95 hours."),
    )
    lines = [said(f"unrelated talk number {minute}", at(minute, "2026-01-05"), session="other") for minute in range(12)]
    lines += [said(text, at(0, day), session=day) for day, text in budgets]
    async with memory(tmp_path) as app:
        await learn(app, lines)
        assert [hit.session_id for hit in await hits(app, "what is the budget of the project")][0] == "2026-02-02"
        for latest in ("what is the current budget of the project", "what is the latest project budget"):
            assert [hit.session_id for hit in await hits(app, latest)][0] == "2026-03-10", latest


@pytest.mark.anyio
async def test_the_only_message_that_holds_all_that_was_asked_is_to_be_trusted(tmp_path: Path) -> None:
    lines = [said(f"unrelated talk number {minute}", at(minute), session="other") for minute in range(3)]
    async with memory(tmp_path) as app:
        await learn(app, [*lines, said("The nightly export writes to the old queue.", at(20), session="one")])
        assert (await hits(app, "nightly export queue"))[0].score >= 0.5
        assert (await hits(app, "nightly recipe for lentil soup"))[0].score < 0.3


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
async def test_a_kind_is_all_that_is_found(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        found = await hits(app, "session ttl", kind=kind)
        assert found
        assert {hit.kind for hit in found} == {kind}


@pytest.mark.anyio
@pytest.mark.parametrize("query", ["token", "what did we do in March?"])
async def test_an_unknown_kind_is_refused_whatever_is_asked(tmp_path: Path, query: str) -> None:
    async with memory(tmp_path) as app:
        with pytest.raises(UsageError, match="not a kind"):
            await hits(app, query, kind="page")


@pytest.mark.anyio
async def test_absent_topics_score_low(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        assert await hits(app, "zeppelin quaternions") == []
        assert all(hit.score < 0.3 for hit in await hits(app, "zeppelin quaternions of the walrus app"))


@pytest.mark.anyio
async def test_a_page_goes_on_where_the_last_ended(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, [said(f"budget plan {minute}", at(minute), session=f"s{minute}") for minute in range(9)])
        first, _ = await app.answers.search("budget plan", "*", limit=5)
        second, _ = await app.answers.search("budget plan", "*", limit=5, cursor="at:5")
        texts = [hit.passage.text for hit in (*first.hits, *second.hits)]
        assert (first.more, second.more) == (5, None)
        assert len(set(texts)) == 9


@pytest.mark.anyio
async def test_hits_of_other_projects_are_counted_when_there_is_none_here(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, [said("hello", at(0)), said("the flux capacitor", at(1), session="s2", project="beta")])
        found, _ = await app.answers.search("flux capacitor", "alpha")
        assert (found.hits, found.elsewhere) == ([], {"beta": 1})


@pytest.mark.anyio
async def test_many_hits_in_few_tokens_carry_short_ids_that_open(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, [said(f"budget plan {minute}", at(minute), session=f"s{minute}") for minute in range(30)])
        found, page = await app.answers.teleport("budget plan", "*", limit=30, budget=1_000)
        short = short_grip_id(parse_grip_id(found.hits[0].grip_id)[1])
        assert page.tokens <= 1_000
        assert page.shown >= 20
        assert short in page.text
        assert found.hits[0].passage.text in (await app.answers.expand_grip(short, 0, 0, 500)).text


ODD = [
    '"',
    "NEAR(a b)",
    "a AND",
    "a OR OR b",
    "x" * 10_000,
    "\x00",
    "session\x00ttl",
    "🦊",
    "a*",
    "^b",
    "col:x",
    "'--",
    "数",
    "((",
]


@given(st.lists(st.text(max_size=60), min_size=10, max_size=10))
@fewer_examples(1 / 10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_string_is_a_valid_query(tmp_path: Path, queries: list[str]) -> None:
    async def ask() -> None:
        async with memory(tmp_path) as app:
            await tell(app, conversation())
            for query in [*ODD, *queries]:
                if query.strip():
                    found = await hits(app, query)
                    assert all(0 <= hit.score <= 1 for hit in found)
                    assert terms_of(query) or not found
                else:
                    with pytest.raises(UsageError, match="no word"):
                        await hits(app, query)

    anyio.run(ask)


@pytest.mark.anyio
async def test_what_events_tell_is_not_told_again_by_the_nodes_above_them(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        assert {hit.kind for hit in await hits(app, "mobile app")} == {"event"}


@pytest.mark.anyio
async def test_where_few_events_speak_of_it_the_nodes_that_do_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())

        # As where only a summary that a model wrote has the words.
        async def nothing(*_: object) -> tuple[list[RankedEntry], tuple[float, ...]]:
            return [], ()

        monkeypatch.setattr(retrieval, "_events", nothing)
        assert (await hits(app, "mobile app"))[0].kind == "segment"


@pytest.mark.anyio
async def test_hits_are_spread_over_sessions_for_a_question_that_counts_and_on_request(tmp_path: Path) -> None:
    told = [said(f"The deploy failed at {n}.", at(n, "2026-03-04"), session="one") for n in range(4)]
    async with memory(tmp_path) as app:
        await tell(app, [*told, said("The deploy failed at 9.", at(0), session="other")])
        one = [hit.session_id for hit in await hits(app, "where the deploy failed")]
        many = [hit.session_id for hit in await hits(app, "how many times the deploy failed")]
        spread = [hit.session_id for hit in await hits(app, "where the deploy failed", diverse=True)]
        assert one.index("other") > many.index("other")
        assert spread.index("other") == 1


@pytest.mark.anyio
async def test_a_hit_that_holds_the_question_and_stands_out_is_to_be_trusted_and_those_behind_are_not(
    tmp_path: Path,
) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        first, *rest = await hits(app, "why is SESSION_TTL raised for the mobile app")
        assert 0.5 <= first.score < 1
        assert all(0 <= hit.score < 0.3 for hit in rest)


@pytest.mark.anyio
@pytest.mark.parametrize("query", ["disk quota exceeded", "zebras counted"])
async def test_what_a_tool_said_late_is_weighed_shown_and_told_as_held(tmp_path: Path, query: str) -> None:
    steps = [f"step {number} went well" for number in range(1_000)]
    output = "\n".join([*steps, "FATAL: disk quota exceeded on /dev/sdb1", *steps, "42 zebras counted"])
    other = "We spoke of disk space and of zebras we had not counted, over a quota of coffee that was exceeded."
    async with memory(tmp_path) as app:
        await tell(app, [said(output, at(0), role="tool"), said(other, at(20), session="other")])
        late = next(hit for hit in await hits(app, query) if hit.role == "tool")
        assert set(late.matched) == set(query.split())
        assert late.missing == ()
        assert late.score > 0
        assert query in late.passage.window(200)


@pytest.mark.anyio
async def test_a_passage_that_is_repeated_in_other_messages_is_shown_once_in_a_session(tmp_path: Path) -> None:
    report = (
        "All done. The importer resumes after a crash, thumbnails are upright, mails reach their inbox. {} tests pass."
    )
    lines = [
        said(f"{'Go on. ' * n}{report.format(200 + n)}", f"2026-03-02T09:0{n}:00Z", role="assistant") for n in range(9)
    ]
    original = "The importer keeps a cursor, from which it goes on at the last batch once it comes back from a crash."
    lines.append(said(original, "2026-03-01T09:00:00Z", role="assistant", session="s0"))
    async with memory(tmp_path) as app:
        await learn(app, lines)
        found, _ = await app.answers.search("how does the importer resume after a crash?", "*")
        assert original in [hit.passage.text for hit in found.hits[:2]]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
async def test_a_time_alone_is_answered_in_the_kind_that_is_asked_for(tmp_path: Path, kind: str) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), *conversation("2026-05-05", "s2")])
        found, note = await app.answers.search("what did we do in March?", "*", kind=kind)
        assert not note
        assert {hit.kind for hit in found.hits} == {kind}
        assert kind == "year" or all(hit.start_ms < 1_775_000_000_000 for hit in found.hits)
        assert all(hit.grip_id for hit in found.hits)
        narrow, _ = await app.answers.search("what did we do?", "*", when="2026-03-02", kind=kind, limit=1)
        assert [hit.kind for hit in narrow.hits] == [kind]
