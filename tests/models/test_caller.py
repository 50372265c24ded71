"""Asking a model through the real SDKs: every way it can go wrong is told apart, counted and survived."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import anyio
import pytest

from mcp_memory.errors import (
    AuthRefused,
    CapReached,
    ContextTooLong,
    InvalidOutput,
    ModelMissing,
    ModelPaused,
    ModelTimeout,
    RateLimited,
    SummarizerError,
    TransportFailed,
)
from mcp_memory.models import caller
from mcp_memory.models.forms import SectionAnswer
from mcp_memory.models.port import PlannedCall
from mcp_memory.models.providers import OpenAIProvider, Reply, Request
from tests.models.asking import asking, question
from tests.models.scripted import DROP, HANG, KEY, Asked, Http, Raw, Said, honest, in_turn

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("kind", ["anthropic", "openai"])
GOOD = honest


@both
async def test_a_good_answer_comes_in_the_form_that_was_asked_for(kind: str, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, GOOD) as at:
        answer, written_by = await at.caller.ask(question(), "toc:day:2026-01-05")
        request = at.model.asked[0]
        rows = await at.rows()
    assert isinstance(answer, SectionAnswer)
    assert written_by == f"{kind}:test-model"
    assert request.structured
    assert request.body.get("max_tokens") == 256
    assert KEY in request.headers["authorization"]
    if kind == "anthropic":
        assert request.body["tool_choice"] == {"type": "tool", "name": "summary"}
    else:
        assert request.body["response_format"]["json_schema"]["strict"] is True
    assert [row["outcome"] for row in rows] == ["ok"]
    assert rows[0]["node"] == "toc:day:2026-01-05"
    assert rows[0]["purpose"] == "segment"
    assert rows[0]["model"] == f"{kind}:test-model"
    assert rows[0]["input_tokens"] > 100
    assert rows[0]["output_tokens"] == 50
    assert rows[0]["latency_ms"] >= 0


@both
@pytest.mark.parametrize("frame", ["```json\n{}\n```", "Sure! Here it is:\n{}", "<|channel|>final<|message|>{}<|end|>"])
async def test_json_in_words_is_understood(kind: str, frame: str, tmp_path: Path) -> None:
    def in_words(asked: Asked) -> Said:
        return Said(frame.replace("{}", json.dumps(honest(asked))))

    async with asking(tmp_path, kind, in_words) as at:
        answer, _ = await at.caller.ask(question())
        assert answer.bullets
        assert len(at.model.asked) == 1


@both
async def test_an_invalid_answer_is_asked_for_once_more_with_what_was_wrong(kind: str, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, in_turn(Said('{"title": "T"}'))) as at:
        await at.caller.ask(question())
        assert await at.outcomes() == ["invalid_output", "ok"]
        assert "bullets" in at.model.asked[1].prompt
        assert "could not be used" in at.model.asked[1].prompt


@both
async def test_a_second_invalid_answer_is_the_end_of_it(kind: str, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, lambda asked: Said("no")) as at:
        with pytest.raises(InvalidOutput):
            await at.caller.ask(question())
        assert await at.outcomes() == ["invalid_output"] * 2
        assert at.waits == []


@both
async def test_an_answer_that_was_cut_off_is_invalid(kind: str, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, in_turn(Said('{"title": "Fix', cut_off=True))) as at:
        await at.caller.ask(question())
        assert "cut off" in at.model.asked[1].prompt


@both
async def test_a_rate_limit_is_waited_for_as_long_as_it_says(kind: str, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, in_turn(Http(429, headers={"retry-after": "7"}), Http(429))) as at:
        await at.caller.ask(question())
        assert await at.outcomes() == ["rate_limit", "rate_limit", "ok"]
        assert at.waits == [7.0, 1.5]


@both
@pytest.mark.parametrize("status", [500, 502, 503, 529])
async def test_errors_of_the_server_are_tried_again(kind: str, status: int, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, in_turn(Http(status), Http(status))) as at:
        await at.caller.ask(question())
        assert await at.outcomes() == ["transport", "transport", "ok"]
        assert [row["input_tokens"] for row in await at.rows()][:2] == [0, 0]
        assert at.waits == [0.75, 1.5]


@both
@pytest.mark.parametrize("status", [429, 503, 529])
async def test_a_wait_that_the_provider_names_is_obeyed_whatever_the_error(
    kind: str, status: int, tmp_path: Path
) -> None:
    answers = in_turn(Http(status, headers={"retry-after": "7"}), Http(status, headers={"retry-after-ms": "9500"}))
    async with asking(tmp_path, kind, answers) as at:
        await at.caller.ask(question())
        assert at.waits == [7.0, 9.5]


@both
@pytest.mark.parametrize("named", ["inf", "1e400", "nan", "soon", "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_a_wait_without_end_or_sense_is_survived(kind: str, named: str, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, lambda asked: Http(503, headers={"retry-after": named})) as at:
        with pytest.raises(TransportFailed):
            await at.caller.ask(question())
        at.clock.move(hours=1, seconds=1)
        assert (await at.caller.readiness()).width > 0


STRANGE = {
    "a page": Raw("<html><body>Sign in to the network</body></html>", "text/html"),
    "null": Raw("null"),
    "a list": Raw("[]"),
    "a text": Raw('"hello"'),
    "an empty object": Raw("{}"),
    "no object": Raw('{"id": "x", "content": 7, "choices": 7}'),
    "half of one": Raw('{"choices": [', "application/json"),
}


@both
@pytest.mark.parametrize("answer", STRANGE.values(), ids=STRANGE.keys())
async def test_an_answer_that_is_none_is_a_failure_like_others(kind: str, answer: Raw, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, lambda asked: answer) as at:
        for number in range(3):
            with pytest.raises(TransportFailed):
                await at.caller.ask(question(f"[1] user: try number {number} of something"))
        assert set(await at.outcomes()) == {"transport"}
        assert (await at.caller.readiness()).width == 0  # the breaker has noted them


@both
@pytest.mark.parametrize(
    "pieces",
    [
        '"choices": [], "content": []',
        '"choices": [null], "content": [null]',
        '"choices": [{"message": null}], "content": [{"type": "text"}]',
        '"choices": [{"message": {"content": 5}}], "content": [{"type": "text", "text": 5}]',
        '"choices": [{"message": {"tool_calls": [{}]}}], "content": [{"type": "tool_use"}]',
    ],
)
async def test_an_answer_that_says_nothing_is_not_the_form_that_was_asked_for(
    kind: str, pieces: str, tmp_path: Path
) -> None:
    async with asking(tmp_path, kind, in_turn(Raw(f'{{"id": "x", {pieces}}}'))) as at:
        await at.caller.ask(question())
        assert await at.outcomes() == ["invalid_output", "ok"]


@both
async def test_a_count_that_is_no_number_is_replaced_by_our_own(kind: str, tmp_path: Path) -> None:
    def odd(asked: Asked) -> Raw:
        text = json.dumps(honest(asked))
        message = {"choices": [{"message": {"content": text}}], "content": [{"type": "text", "text": text}]}
        many = "many"
        usage = {"prompt_tokens": many, "completion_tokens": None, "input_tokens": many, "output_tokens": [1]}
        return Raw(json.dumps({"id": "x", **message, "usage": usage}))

    async with asking(tmp_path, kind, odd) as at:
        await at.caller.ask(question())
        (row,) = await at.rows()
    assert row["outcome"] == "ok"
    assert row["input_tokens"] > 100
    assert row["output_tokens"] > 10


@both
@pytest.mark.parametrize("key", ["sk-schlüssel-0123456789", "sk-one\nsk-two"])
async def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(kind: str, key: str, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, GOOD, key=key) as at:
        with pytest.raises(AuthRefused, match="no key has") as caught:
            await at.caller.ask(question())
        assert at.model.asked == []
        assert "sk-" not in str(caught.value) + (await at.caller.readiness()).reason


class Surprised(OpenAIProvider):
    async def ask(self, model: str, request: Request, structured: bool) -> Reply:
        raise LookupError(KEY)


async def test_whatever_an_sdk_raises_is_told_by_its_type_alone(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", GOOD, make=Surprised) as at:
        with pytest.raises(TransportFailed, match=r"\(LookupError\)") as caught:
            await at.caller.ask(question())
        assert KEY not in str(caught.value)
        assert await at.outcomes() == ["transport"] * 4


@both
async def test_a_dropped_connection_is_tried_again_and_counts_as_paid_for(kind: str, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, in_turn(DROP)) as at:
        await at.caller.ask(question())
        rows = await at.rows()
    assert [row["outcome"] for row in rows] == ["transport", "ok"]
    assert rows[0]["input_tokens"] > 100


@both
async def test_a_slow_answer_is_given_up(kind: str, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, in_turn(HANG, HANG, HANG, HANG), timeout=0.15) as at:
        with pytest.raises(ModelTimeout):
            await at.caller.ask(question())
        assert await at.outcomes() == ["timeout"] * 4


@both
async def test_a_wrong_key_stops_the_model_until_the_settings_change(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    refuse = Http(401, f"Incorrect API key provided: {KEY}")
    async with asking(tmp_path, kind, lambda asked: refuse) as at:
        with pytest.raises(AuthRefused) as caught:
            await at.caller.ask(question())
        with pytest.raises(AuthRefused):
            await at.caller.ask(question("[1] user: something else"))
        ready = await at.caller.readiness()
        assert await at.outcomes() == ["auth"]
        assert len(at.model.asked) == 1
        assert ready.width == 0
        assert "refuses the key" in ready.reason
        assert KEY not in str(caught.value) + ready.reason
        stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert KEY.encode() not in stored
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("mcp_memory")]
    assert KEY not in "".join(ours)
    async with asking(tmp_path, kind, GOOD, key="sk-another") as at:
        assert (await at.caller.readiness()).width == 4
        await at.caller.ask(question())


@both
@pytest.mark.parametrize(
    "refusal",
    [
        Http(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        Http(400, "This model's maximum context length is 8192 tokens.", code="context_length_exceeded"),
        Http(413, "request_too_large"),
        Http(400, "the request exceeds the available context size"),
    ],
)
async def test_a_prompt_that_is_too_long_is_told_apart(kind: str, refusal: Http, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, lambda asked: refusal) as at:
        with pytest.raises(ContextTooLong):
            await at.caller.ask(question())
        assert await at.outcomes() == ["context_too_long"]
        assert (await at.caller.readiness()).width == 4


@both
async def test_a_server_that_does_not_know_forms_is_asked_in_words(kind: str, tmp_path: Path) -> None:
    def simple(asked: Asked) -> object:
        if asked.structured:
            return Http(400, "unknown field")
        return Said(json.dumps(honest(asked)))

    async with asking(tmp_path, kind, simple) as at:
        await at.caller.ask(question())
        await at.caller.ask(question("[1] user: another text that is long enough to be told"))
        assert await at.outcomes() == ["refused", "ok", "ok"]


@both
async def test_the_next_model_is_asked_when_the_first_cannot(kind: str, tmp_path: Path) -> None:
    def picky(asked: Asked) -> object:
        return Http(404, "no such model") if asked.model == "first" else honest(asked)

    async with asking(tmp_path, kind, picky, models=("first", "second")) as at:
        _, written_by = await at.caller.ask(question())
        assert written_by == f"{kind}:second"
        assert at.caller.name == f"{kind}:first"
        assert await at.outcomes() == ["model_missing", "ok"]


@both
async def test_a_key_that_may_not_use_the_first_model_may_use_the_next(kind: str, tmp_path: Path) -> None:
    def picky(asked: Asked) -> object:
        return Http(403, "your project has no access") if asked.model == "first" else honest(asked)

    async with asking(tmp_path, kind, picky, models=("first", "second")) as at:
        assert (await at.caller.ask(question()))[1] == f"{kind}:second"
        assert await at.outcomes() == ["auth", "ok"]
        assert (await at.caller.readiness()).width == 4


@both
async def test_a_key_that_no_model_takes_stops_them_all(kind: str, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, lambda asked: Http(403), models=("first", "second")) as at:
        with pytest.raises(AuthRefused, match="second"):
            await at.caller.ask(question())
        assert await at.outcomes() == ["auth", "auth"]
        assert (await at.caller.readiness()).width == 0
    async with asking(tmp_path / "wrong", kind, lambda asked: Http(401), models=("first", "second")) as at:
        with pytest.raises(AuthRefused):
            await at.caller.ask(question())
        assert await at.outcomes() == ["auth"]  # a wrong key is wrong for all of them


@both
async def test_a_model_that_fails_beside_one_that_is_refused_is_only_failing(kind: str, tmp_path: Path) -> None:
    def picky(asked: Asked) -> object:
        return Http(403) if asked.model == "second" else Http(500)

    async with asking(tmp_path, kind, picky, models=("first", "second")) as at:
        with pytest.raises(TransportFailed):
            await at.caller.ask(question())
        assert (await at.caller.readiness()).width == 4


async def test_a_local_server_needs_no_key(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", GOOD, key="") as at:
        await at.caller.ask(question())
        assert at.model.asked[0].headers["authorization"] == "Bearer none"


@both
async def test_the_same_question_is_paid_for_once(kind: str, tmp_path: Path) -> None:
    async with asking(tmp_path, kind, GOOD) as at:
        first = await at.caller.ask(question())
    async with asking(tmp_path, kind, lambda asked: Http(500)) as at:
        assert await at.caller.ask(question()) == first
        assert at.model.asked == []
        assert await at.outcomes() == ["ok"]


async def test_an_answer_that_is_asked_for_again_is_kept_on(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", GOOD) as at:
        await at.caller.ask(question())
        at.clock.move(days=60)
        await at.caller.ask(question())
        at.clock.move(days=60)
        await at.caller.ask(question("[1] user: another text; what is too old is thrown away with its answer"))
        await at.caller.ask(question())
        assert len(at.model.asked) == 2
        at.clock.move(days=91)
        await at.caller.ask(question("[1] user: a third text, long after the others"))
        await at.caller.ask(question())
        assert len(at.model.asked) == 4


async def test_the_cap_is_hard_and_counted_before_the_call(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", GOOD, cap=1_200) as at:
        await at.caller.ask(question())
        spent = sum(row["input_tokens"] + row["output_tokens"] for row in await at.rows())
        assert await at.ledger.room() == 1_200 - spent
        with pytest.raises(CapReached, match="tomorrow"):
            for number in range(9):
                await at.caller.ask(question(f"[1] user: text number {number} that says something"))
        rows = await at.rows()
        assert sum(row["input_tokens"] + row["output_tokens"] for row in rows) <= 1_200
        assert len(at.model.asked) == len(rows)
        at.clock.move(days=1)
        await at.caller.ask(question("[1] user: on the next day there is room again"))


async def test_calls_side_by_side_cannot_break_the_cap(tmp_path: Path) -> None:
    refused = 0

    async def one(number: int) -> None:
        nonlocal refused
        try:
            await at.caller.ask(question(f"[1] user: text number {number} that says something"))
        except CapReached:
            refused += 1

    async with asking(tmp_path, "openai", GOOD, cap=2_500, concurrency=8) as at:
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(one, number)
        rows = await at.rows()
    assert refused
    assert rows
    assert sum(row["input_tokens"] + row["output_tokens"] for row in rows) <= 2_500


async def test_a_call_that_was_never_settled_counts_as_planned(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", GOOD, cap=10_000) as at:
        await at.ledger.reserve(PlannedCall("segment", "n", "openai:test-model", 4_000, 1_000))
        assert await at.ledger.room() == 5_000


async def test_repeated_failure_opens_the_breaker_and_success_closes_it(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", lambda asked: Http(500)) as at:
        for number in range(3):
            with pytest.raises(TransportFailed):
                await at.caller.ask(question(f"[1] user: try number {number} of something"))
        made = len(at.model.asked)
        with pytest.raises(ModelPaused):
            await at.caller.ask(question("[1] user: one more try"))
        assert len(at.model.asked) == made
        assert (await at.caller.readiness()).width == 0
        at.clock.move(seconds=61)
        assert (await at.caller.readiness()).width == 1
        at.model.respond = honest
        await at.caller.ask(question("[1] user: the model is back again and answers"))
        assert (await at.caller.readiness()).width == 4


async def test_a_long_wait_that_is_asked_for_pauses_the_model(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", in_turn(Http(429, headers={"retry-after": "600"}))) as at:
        with pytest.raises(RateLimited):
            await at.caller.ask(question())
        assert at.waits == []
        assert (await at.caller.readiness()).width == 0
        at.clock.move(seconds=601)
        await at.caller.ask(question())


async def test_a_missing_model_is_not_for_ever(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", in_turn(Http(404))) as at:
        with pytest.raises(ModelMissing, match="summarizer.model"):
            await at.caller.ask(question())
        await at.caller.ask(question())


async def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "find_spec", lambda name: None)
    async with asking(tmp_path, "anthropic", GOOD) as at:
        assert "pip install '.[anthropic]'" in (await at.caller.readiness()).reason
        with pytest.raises(SummarizerError, match=r"uv tool install '\.\[anthropic\]'"):
            await at.caller.ask(question())
