"""What is known without a model goes into the prompt; an answer that tells as true what was refuted is not taken."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.domain.nodes import Bullet, Kind, Node
from mcp_memory.domain.toc import BULLETS, Level
from mcp_memory.errors import UntrueOutput
from mcp_memory.models.forms import NOTHING, Claims
from mcp_memory.models.summarizer import ModelRecords, ModelSummarizer, claims_in
from mcp_memory.summaries import ExtractiveSummarizer
from tests.models.asking import Asking, asking, question
from tests.models.scripted import Asked, honest, in_turn, scripted
from tests.models.test_forms import HOSTILE
from tests.pipeline.test_upgrade import opened, settle, upgrades
from tests.summaries.conversations import conversation, segment_node
from tests.support import all_nodes, learn, said

pytestmark = pytest.mark.anyio
GUESS = "The timeout comes from the connection pool of the database: it is exhausted at night"
FOUND = "The proxy closes idle connections after 60 seconds, so the report waits for a socket that is gone."
TALK = (
    ("user", "The nightly report times out since Monday. Please find out why and fix it, without a new schema."),
    ("assistant", f"{GUESS}. I would raise its size to 40 connections in settings.py."),
    ("user", "No, the connection pool of the database is fine, I checked it. The proxy closes idle connections."),
    ("assistant", f"You're right. {FOUND} I set keepalive to 30 seconds in proxy.conf, and the nightly report runs."),
)
GOOD = {"title": "The proxy closed idle connections of the report", "bullets": [FOUND], "keywords": ["proxy"]}
BAD = GOOD | {"title": "Connection pool of the database causes the timeout"}
CLAIMS = Claims(((Kind.CAUSE, FOUND),), ("Another guess about nothing here", GUESS))


def summarizer(at: Asking) -> ModelSummarizer:
    return ModelSummarizer(at.caller, ExtractiveSummarizer())


def told(*texts: str) -> dict[str, Any]:
    return GOOD | {"bullets": [*texts]}


INSISTING = [BAD, told(FOUND, "The exhausted connection pool of the database was behind the timeout at night.")]


@pytest.mark.parametrize("answer", INSISTING, ids=["in the title", "in a bullet"])
async def test_a_model_that_insists_on_what_was_refuted_is_not_taken(answer: dict[str, Any], tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", lambda asked: answer) as at:
        for number in range(4):
            with pytest.raises(UntrueOutput, match="number 1") as caught:
                await summarizer(at).segment(conversation(*TALK), [], prior=str(number))
        assert await at.outcomes() == ["untrue"] * 8
        assert (await at.caller.readiness()).width == 4  # it is the answer that is bad, not the model that is gone
    assert "pool" not in str(caught.value)  # what was said stays out of logs and messages


async def test_it_is_told_once_what_is_wrong_and_may_mend_it(tmp_path: Path) -> None:
    async with asking(tmp_path, "anthropic", in_turn(BAD, GOOD)) as at:
        summary = await summarizer(at).segment(conversation(*TALK), [])
        again = at.model.asked[1].prompt
        assert await at.outcomes() == ["untrue", "ok"]
    assert summary.title == GOOD["title"]
    assert "number 1 of that list" in again.rpartition("</material")[2]


@pytest.mark.parametrize(
    "text",
    [
        "The connection pool of the database was not what made the timeout.",
        "That the connection pool of the database causes the timeout was refuted.",
        "The connection pool of the database is fine, as the user checked.",
        "The pool was enlarged.",
    ],
)
async def test_to_say_that_it_was_refuted_or_something_else_is_no_repetition(text: str, tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", lambda asked: told(text)) as at:
        assert (await summarizer(at).segment(conversation(*TALK), [])).bullets[0].text == text
        assert await at.outcomes() == ["ok"]


def test_a_claim_with_a_not_in_it_is_repeated_by_words_that_have_it_too() -> None:
    claims = Claims((), ("The cache of the gateway does not expire at midnight",))
    answer = question().form.model_validate(told("The cache of the gateway does not expire at midnight."))
    assert "number 1" in claims.wrong_with(answer)


def test_what_was_not_chosen_is_refuted_and_what_was_chosen_stands() -> None:
    options = (
        "Two ways:\n\nOption A: keep the name first in the list\n\nOption B: show the identifiers of sessions alone"
    )
    claims = claims_in(
        conversation(("user", "How shall the list look?"), ("assistant", options), ("user", "Option B."))
    )
    assert any("identifiers of sessions" in text for kind, text in claims.standing if kind is Kind.DECISION)
    assert [text for text in claims.refuted if "name first" in text]
    assert not [text for text in claims.refuted if "identifiers" in text]


async def test_the_record_of_a_session_is_held_to_the_same(tmp_path: Path) -> None:
    def insisting(asked: Asked) -> dict[str, Any]:
        return honest(asked) | {"summary": f"The report was looked at. {GUESS}."}

    async with asking(tmp_path, "openai", insisting) as at:
        with pytest.raises(UntrueOutput):
            await ModelRecords(at.caller).condense(conversation(*TALK), prior="", node_id="session:s")
        at.model.respond = lambda asked: honest(asked) | {"key_points": [FOUND]}
        body, _ = await ModelRecords(at.caller).condense(conversation(*TALK), prior="", node_id="session:s")
    assert body.key_points == (FOUND,)


def days() -> list[Node]:
    """A guess on one day, what set it right on another, and much else."""
    filler = [f"Route {at} of the gateway returns {at} items to the caller of the service" for at in range(10)]
    first = segment_node(0, "The nightly report times out", [GUESS, *filler], ("report",))
    second = segment_node(
        1,
        "The proxy and the report",
        ["Corrected: The connection pool of the database is fine, the timeout comes from the proxy", *filler],
        ("proxy",),
    )
    return [first, second]


async def test_a_period_does_not_tell_what_a_later_child_set_right(tmp_path: Path) -> None:
    answers = [BAD | {"bullets": [{"text": "The proxy closed connections.", "sources": [11]}]}]
    async with asking(tmp_path, "openai", lambda asked: answers[0]) as at:
        with pytest.raises(UntrueOutput):
            await summarizer(at).rollup(Level.DAY, days())
        assert await at.outcomes() == ["untrue"] * 2
        asked = at.model.asked[0]
        assert GUESS not in asked.material
        assert GUESS in asked.prompt
        answers[0] = GOOD | {"bullets": [{"text": "The proxy closed connections.", "sources": [11]}]}
        summary = await summarizer(at).rollup(Level.DAY, days())
    assert summary.topic == GOOD["title"]
    assert summary.bullets[0].child_ids == (days()[1].node_id,)


async def test_a_period_does_not_tell_as_done_what_was_refused(tmp_path: Path) -> None:
    first, second = days()
    refusal = Bullet("Drop the table of sessions and create it anew", kind=Kind.REFUSED)
    children = [replace(first, bullets=(*first.bullets, refusal)), second]

    def dropping(kind: str) -> dict[str, Any]:
        return GOOD | {"bullets": [{"text": "Drop the table of sessions, create anew", "kind": kind, "sources": [1]}]}

    async with asking(tmp_path, "openai", lambda asked: dropping("outcome")) as at:
        with pytest.raises(UntrueOutput):
            await summarizer(at).rollup(Level.DAY, children)
        assert "Refused: Drop the table" in at.model.asked[0].material
        at.model.respond = lambda asked: dropping("refused")
        summary = await summarizer(at).rollup(Level.DAY, children)
    assert summary.bullets[0].shown.startswith("Refused: Drop")


async def test_a_short_period_is_told_as_it_is_without_what_was_set_right(tmp_path: Path) -> None:
    children = [replace(node, bullets=node.bullets[:1]) for node in days()]
    async with asking(tmp_path, "openai", honest) as at:
        summary = await summarizer(at).rollup(Level.DAY, children)
        assert at.model.asked == []
    assert len(summary.bullets) <= BULLETS[Level.DAY][1]
    assert [bullet.kind for bullet in summary.bullets] == [Kind.CORRECTION]


async def test_an_answer_that_was_kept_is_looked_at_again(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", in_turn(BAD, then=lambda asked: GOOD)) as at:
        asked = question(claims=CLAIMS)
        await at.ledger.keep(at.caller._key("test-model", asked), '{"title": "no answer"}')
        answer, _ = await at.caller.ask(asked)
        assert answer.title == GOOD["title"]
        assert await at.outcomes() == ["untrue", "ok"]


def test_the_prompt_holds_the_rules_of_truth_and_what_is_known() -> None:
    asked = question(claims=CLAIMS)
    for rule in (
        "is out; the correction is in",
        "never told as a fact",
        "chose or agreed to",
        "told as fixed",
        "Open is",
    ):
        assert rule in asked.system
    assert "one clause" in asked.system
    assert f"cause: {FOUND}" in asked.prompt
    assert f"[2] {GUESS}" in asked.prompt
    assert asked.prompt.index(GUESS) < asked.prompt.index("<material-")
    assert "<refuted-" not in question(claims=NOTHING).prompt


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_known_stays_inside_its_fence(text: str) -> None:
    asked = question(claims=Claims(((Kind.OUTCOME, text),), (text,)))
    for name in ("standing", "refuted"):
        fence = re.search(rf"<({name}-\w+)>\n(.*?)\n</\1>", asked.prompt, re.S)
        assert fence
        assert text.splitlines()[0] in fence[2]
    assert "evil" not in asked.system


async def test_every_chunk_of_a_long_segment_knows_what_was_refuted(tmp_path: Path) -> None:
    filler = [("assistant", f"Fact {n} of the gateway. " + "filler words here " * 120) for n in range(14)]

    def late(asked: Asked) -> Any:
        return (GOOD if asked.form == "section" else BAD) | {"bullets": [{"text": "Facts of the gateway."}]}

    async with asking(tmp_path, "openai", late) as at:
        with pytest.raises(UntrueOutput):
            await summarizer(at).segment(conversation(*TALK, *filler), [])
        chunks = [asked.prompt for asked in at.model.asked if asked.form == "section"]
        merges = [asked.prompt for asked in at.model.asked if asked.form == "merge"]
    assert len(chunks) >= 2
    assert len(merges) == 2
    assert all("<refuted-" in prompt for prompt in chunks + merges)
    assert not any("<standing-" in prompt for prompt in chunks)
    assert all("<standing-" in prompt for prompt in merges)


async def test_in_the_tree_the_extractive_version_stands(tmp_path: Path) -> None:
    lines = [said(text, f"2026-03-02T09:0{at}:00Z", role=role) for at, (role, text) in enumerate(TALK)]
    with scripted(lambda asked: BAD if asked.form == "section" else honest(asked)) as model:
        async with opened(tmp_path, model) as app:
            await learn(app, lines)
            assert await settle(app) == 0
            assert "refuted" in upgrades(app).reason
            await settle(app)  # the periods above do not wait for it for ever, and it is left alone for a while
            nodes = await all_nodes(app)
        asked = [asked.form for asked in model.asked]
    assert {node.written_by for node in nodes if node.level is Level.SEGMENT} == {"extractive"}
    assert asked.count("section") == 2
    assert not any("pool of the database causes" in node.title for node in nodes)
