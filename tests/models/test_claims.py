"""What is known without a model goes into the prompt; an answer that tells as true what was refuted is not taken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Kind
from mcp_memory.errors import UntrueOutput
from mcp_memory.models.forms import NOTHING, Claims
from mcp_memory.models.summarizer import ModelSummarizer
from mcp_memory.summaries import ExtractiveSummarizer
from tests.models.asking import Asking, asking, question
from tests.models.scripted import Asked, honest, in_turn
from tests.models.test_forms import HOSTILE
from tests.summaries.conversations import PORT, conversation

pytestmark = pytest.mark.anyio
REFUTED = "The timeout comes from the connection pool of the database"
CLAIMS = Claims(((Kind.CAUSE, "The cause is the port"),), ("Another guess about nothing here", REFUTED))
BAD = {"title": "The database connection pool causes the timeout", "bullets": ["The port is wrong."], "keywords": []}
GOOD = {"title": "The Postgres port of the checkout test", "bullets": ["The port is wrong."], "keywords": []}


def summarizer(at: Asking, claims: Claims = CLAIMS) -> ModelSummarizer:
    def known(events: Sequence[Event], context: Sequence[Event]) -> Claims:
        return claims

    return ModelSummarizer(at.caller, ExtractiveSummarizer(), known)


def told(*texts: str) -> dict[str, Any]:
    return GOOD | {"bullets": [*texts]}


@pytest.mark.parametrize("answer", [BAD, told("The connection pool of the database was behind the timeout.")])
async def test_a_model_that_insists_on_what_was_refuted_is_not_taken(answer: dict[str, Any], tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", lambda asked: answer) as at:
        for number in range(4):
            with pytest.raises(UntrueOutput, match="number 2") as caught:
                await summarizer(at).segment(PORT, [], prior=str(number))
        assert await at.outcomes() == ["untrue"] * 8
        assert (await at.caller.readiness()).width == 4  # it is the answer that is bad, not the model that is gone
    assert "pool" not in str(caught.value)  # what was said stays out of logs and messages


async def test_it_is_told_once_what_is_wrong_and_may_mend_it(tmp_path: Path) -> None:
    async with asking(tmp_path, "anthropic", in_turn(BAD, GOOD)) as at:
        summary = await summarizer(at).segment(PORT, [])
        again = at.model.asked[1].prompt
        assert await at.outcomes() == ["untrue", "ok"]
    assert summary.title == GOOD["title"]
    assert "number 2 of that list" in again.rpartition("</material")[2]


@pytest.mark.parametrize(
    "text",
    [
        "It was not the connection pool of the database that made the timeout.",
        "That the connection pool of the database causes the timeout was refuted.",
        "The pool was enlarged.",
        "Another talk about nothing.",
    ],
)
async def test_to_say_that_it_was_refuted_or_something_else_is_no_repetition(text: str, tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", lambda asked: told(text)) as at:
        assert (await summarizer(at).segment(PORT, [])).bullets[0].text == text
        assert await at.outcomes() == ["ok"]


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
    assert "cause: The cause is the port" in asked.prompt
    assert f"[2] {REFUTED}" in asked.prompt
    assert asked.prompt.index(REFUTED) < asked.prompt.index("<material-")
    assert "<refuted-" not in question(claims=NOTHING).prompt


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_known_stays_inside_its_fence(text: str) -> None:
    asked = question(claims=Claims(((Kind.STATED, text),), (text,)))
    for name in ("standing", "refuted"):
        fence = re.search(rf"<({name}-\w+)>\n(.*?)\n</\1>", asked.prompt, re.S)
        assert fence
        assert text.splitlines()[0] in fence[2]
    assert "evil" not in asked.system


async def test_every_chunk_of_a_long_segment_knows_what_was_refuted(tmp_path: Path) -> None:
    events = conversation(
        *[("assistant", f"Fact {n} of the gateway. " + "filler words here " * 120) for n in range(14)]
    )

    def late(asked: Asked) -> Any:
        return honest(asked) if asked.form == "section" else BAD | {"bullets": [{"text": "Facts.", "sources": [1]}]}

    async with asking(tmp_path, "openai", late) as at:
        with pytest.raises(UntrueOutput):
            await summarizer(at).segment(events, [])
        chunks = [asked.prompt for asked in at.model.asked if asked.form == "section"]
        merges = [asked.prompt for asked in at.model.asked if asked.form == "merge"]
    assert len(chunks) >= 2
    assert all(REFUTED in prompt for prompt in chunks + merges)
    assert not any("The cause is the port" in prompt for prompt in chunks)
    assert all("The cause is the port" in prompt for prompt in merges)
