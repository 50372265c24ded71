"""One question to a model: answered from what is paid for, or by a call that is counted, retried and checked."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import anyio

from mcp_memory.errors import (
    AuthRefused,
    CapReached,
    ContextTooLong,
    InvalidOutput,
    ModelMissing,
    ModelPaused,
    ModelTimeout,
    ModelUnusable,
    Passing,
    Problem,
    RateLimited,
    RequestRefused,
    SummarizerError,
    TransportFailed,
    UntrueOutput,
    how_to_add,
)
from mcp_memory.models.forms import A, Prompt, again, parse
from mcp_memory.models.port import Ledger, PlannedCall, Readiness
from mcp_memory.models.providers import (
    SERVICES,
    CommandProvider,
    Provider,
    Reply,
    Request,
    find_program,
    no_program,
)
from mcp_memory.models.tokens import count
from mcp_memory.store.port import Clock

#: What providers add to a prompt: the tool or schema, and the roles.
_FRAME_TOKENS = 120
#: The longest wait of our own between two tries, and the longest that a provider may ask for, in seconds.
_LONGEST_WAIT, _PATIENCE = 20.0, 60.0
BREAKER, STOPPED = "breaker", "stopped"
_OUTCOMES: dict[type[SummarizerError], str] = {
    RateLimited: "rate_limit",
    ModelTimeout: "timeout",
    TransportFailed: "transport",
    AuthRefused: "auth",
    ModelMissing: "model_missing",
    InvalidOutput: "invalid_output",
    UntrueOutput: "untrue",
    ContextTooLong: "context_too_long",
    RequestRefused: "refused",
}


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which models are asked, where, and within which limits."""

    kind: str
    models: tuple[str, ...]
    api_key: str
    base_url: str
    max_output_tokens: int = 1_024
    timeout_seconds: float = 60.0
    concurrency: int = 4
    command: tuple[str, ...] = ()
    #: The variables that a command is started with.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def fingerprint(self) -> str:
        """Changes with what a provider may refuse. Of the key it holds too little to tell one from another."""
        key = hashlib.blake2b(self.api_key.encode(), digest_size=2, person=b"key").hexdigest()
        told = "\x1f".join([self.kind, *self.models, self.base_url, key, *self.command])
        return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()

    def missing(self) -> Problem | None:
        """What is missing on this machine, whatever a provider would say."""
        if self.kind == "command":
            if find_program(self.command[0], self.environment):
                return None
            return Problem(
                "the summarizer's program is not there", no_program(self.command[0]), "mcp-memory models show"
            )
        library, variable = SERVICES[self.kind].library, f"{self.kind.upper()}_API_KEY"
        if find_spec(library) is None:
            why = f"The package {library} is not installed: {how_to_add(library)}."
            return Problem(f"the package {library} is not installed", why, how_to_add(library))
        if not self.api_key and not self.base_url and self.kind != "ollama":
            why = f"There is no key: set {variable} or summarizer.api_key_file."
            return Problem(
                f"there is no key for {self.kind}", why, f"Set {variable}, or summarizer.api_key_file in config.toml."
            )
        return None


class Caller:
    """Asks the preferred models in order. Owns the provider's connection."""

    #: How often a call is made that may work the next time.
    tries = 4
    #: Whether an answer that was paid for before will do.
    reuses = True

    def __init__(
        self,
        settings: ModelSettings,
        ledger: Ledger,
        clock: Clock,
        *,
        make: Callable[[str, str, float], Provider] | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if settings.kind == "command":
            self._provider: Provider = CommandProvider(settings.command, settings.environment)
        else:
            make = make or SERVICES[settings.kind]
            self._provider = make(settings.api_key, settings.base_url, settings.timeout_seconds)
        self.settings, self._ledger, self._clock = settings, ledger, clock
        self._sleep, self._chance = sleep, chance
        self._turns = anyio.Semaphore(settings.concurrency)
        self._by_words: set[str] = set()
        self._noting = anyio.Lock()

    @property
    def name(self) -> str:
        return self._signed(self.settings.models[0])

    async def close(self) -> None:
        await self._provider.close()

    async def readiness(self) -> Readiness:
        """Whether a call makes sense now: only one at a time while a model has yet to prove that it is back."""
        reason = self._unprepared() or await self._refusal() or await self._pause()
        if not reason and await self._ledger.room() <= 0:
            reason = "The day's tokens are spent (summarizer.daily_token_cap)."
        if reason:
            return Readiness(0, reason)
        return Readiness(1 if (await self._breaker()).failures >= THRESHOLD else self.settings.concurrency)

    async def forgive(self) -> None:
        """Forget what models failed at or were refused for: the user says that it is mended."""
        for state in (STOPPED, BREAKER):
            await self._ledger.set_state(state, {})

    async def ask(self, question: Prompt[A], node_id: str = "") -> tuple[A, str]:
        """The answer of the first model that gives one, and who gave it. Raises what kept the last one from it."""
        for model in self.settings.models:
            kept = await self._ledger.answer(self._key(model, question))
            with suppress(InvalidOutput):  # what was good enough once may not be any more
                if kept is not None and self.reuses:
                    return checked(kept, question), self._signed(model)
        if blocked := self._unprepared() or await self._refusal():
            raise AuthRefused(blocked)
        failure: SummarizerError | None = None
        refusal: AuthRefused | None = None
        for model in self.settings.models:
            try:
                answer = await self._of_model(model, question, node_id)
            except (ContextTooLong, CapReached, ModelPaused):
                raise
            except AuthRefused as error:
                refusal = error
                if not error.for_model:
                    break
            except SummarizerError as error:
                failure = error
            else:
                await self._note(None)
                return answer, self._signed(model)
        if refusal and not (refusal.for_model and failure):
            await self._ledger.set_state(STOPPED, {"fingerprint": self.settings.fingerprint, "reason": str(refusal)})
            raise refusal
        failure = failure or ModelUnusable("No model is set. Set summarizer.model.")
        if not isinstance(failure, UntrueOutput):
            await self._note(failure)
        raise failure

    async def _of_model(self, model: str, question: Prompt[A], node_id: str) -> A:
        try:
            reply, answer = await self._retried(model, question, node_id)
        except InvalidOutput as error:
            reply, answer = await self._retried(model, again(question, str(error)), node_id)
        await self._ledger.keep(self._key(model, question), reply.text)
        return answer

    async def _retried(self, model: str, question: Prompt[A], node_id: str) -> tuple[Reply, A]:
        """Call until it works, fails for good, or has failed too often.

        Waits double, each shortened by chance so that callers do not keep step. A provider that names its own is
        obeyed; one that names too long a wait is not waited for at all.
        """
        failures = 0
        while True:
            try:
                async with self._turns:
                    if paused := await self._pause():
                        raise ModelPaused(paused)
                    return await self._call(model, question, node_id)
            except RequestRefused:
                if model in self._by_words:
                    raise
                # Many servers refuse forms that they do not know; the prompt tells the form as well.
                self._by_words.add(model)
                failures = 0
            except Passing as error:
                failures += 1
                asked = error.retry_after or 0.0
                if failures >= self.tries or asked > _PATIENCE:
                    raise
                own = min(2.0 ** (failures - 1), _LONGEST_WAIT) * (0.5 + 0.5 * self._chance())
                await self._sleep(max(own, asked))

    async def _call(self, model: str, question: Prompt[A], node_id: str) -> tuple[Reply, A]:
        most = self.settings.max_output_tokens
        request = Request(question.system, question.prompt, question.form.model_json_schema(), most)
        tokens = count(question.system) + count(question.prompt) + _FRAME_TOKENS
        number = await self._ledger.reserve(PlannedCall(question.purpose, node_id, self._signed(model), tokens, most))
        started = time.monotonic()
        spent, outcome, cut_off = (0, 0), "failed", False
        try:
            reply = await self._timely(model, request)
            cut_off = reply.cut_off
            spent = (reply.input_tokens or tokens, reply.output_tokens or count(reply.text))
            answer = checked(reply.text, question)
            outcome = "ok"
            return reply, answer
        except SummarizerError as error:
            outcome = _OUTCOMES.get(type(error), "failed")
            if isinstance(error, ModelTimeout) or (isinstance(error, TransportFailed) and not error.answered):
                spent = (tokens, 0)  # it may have been worked on, and be paid for
            if isinstance(error, InvalidOutput) and cut_off:
                raise InvalidOutput("The answer was cut off at its greatest length. Write less.") from None
            raise
        except anyio.get_cancelled_exc_class():
            number = 0  # interrupted: the reservation stands
            raise
        finally:
            if number:
                latency = round((time.monotonic() - started) * 1000)
                await self._ledger.settle(number, outcome, *spent, latency)

    async def _timely(self, model: str, request: Request) -> Reply:
        try:
            with anyio.fail_after(self.settings.timeout_seconds):
                return await self._provider.ask(model, request, structured=model not in self._by_words)
        except TimeoutError:
            seconds = f"{self.settings.timeout_seconds:g} s"
            raise ModelTimeout(f"{model} did not answer within {seconds} (summarizer.timeout_seconds).") from None
        except SummarizerError:
            raise
        except Exception as error:
            # Whatever an SDK makes of an answer that it did not expect. Its words may hold the key, its type does not.
            raise TransportFailed(f"The answer of {model} could not be read ({type(error).__name__}).") from None

    def _signed(self, model: str) -> str:
        return f"{self._provider.kind}:{model}"

    def _key(self, model: str, question: Prompt[A]) -> str:
        text = "\x1f".join((self._signed(model), question.form.__name__, question.system, question.prompt))
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()

    def _unprepared(self) -> str:
        missing = self.settings.missing()
        return missing.why if missing else ""

    async def _refusal(self) -> str:
        """Why the provider refused these very settings before."""
        stopped = await self._ledger.state(STOPPED)
        return str(stopped["reason"]) if stopped.get("fingerprint") == self.settings.fingerprint and stopped else ""

    async def _pause(self) -> str:
        breaker = await self._breaker()
        return f"The model is left alone for a while: {breaker.reason}" if breaker.is_open(self._clock.now_ms()) else ""

    async def _breaker(self) -> Breaker:
        return Breaker(**await self._ledger.state(BREAKER))

    async def _note(self, error: SummarizerError | None) -> None:
        """Remember that a call worked, or why none did."""
        async with self._noting:
            breaker = await self._breaker()
            if error is None and not breaker.failures:
                return
            asked = error.retry_after if isinstance(error, Passing) else None
            now = self._clock.now_ms()
            noted = after_failure(breaker, str(error), now, asked) if error else Breaker()
            await self._ledger.set_state(BREAKER, asdict(noted))


def checked(text: str, question: Prompt[A]) -> A:
    """The answer, if it has the form that was asked for and nothing is wrong with what it says."""
    answer = parse(text, question.form)
    if problem := question.wrong_with(answer):
        raise UntrueOutput(problem)
    return answer


@dataclass(frozen=True, slots=True)
class Breaker:
    """How often in a row requests have failed, and until when none is made because of that."""

    failures: int = 0
    open_until_ms: int = 0
    reason: str = ""

    def is_open(self, now_ms: int) -> bool:
        return now_ms < self.open_until_ms


THRESHOLD = 3
_FIRST_PAUSE_MS = 60_000
_LONGEST_PAUSE_MS = 3_600_000


def after_failure(breaker: Breaker, reason: str, now_ms: int, asked_seconds: float | None = None) -> Breaker:
    """One more failure. From the third on a pause follows, twice as long each time; a longer one if it is asked for."""
    failures = breaker.failures + 1
    pause = 0
    if failures >= THRESHOLD:
        pause = min(_FIRST_PAUSE_MS << min(failures - THRESHOLD, 10), _LONGEST_PAUSE_MS)
    if asked_seconds:
        pause = max(pause, round(min(asked_seconds * 1000, _LONGEST_PAUSE_MS)))
    return Breaker(failures, now_ms + pause if pause else breaker.open_until_ms, reason)


_MEANWHILE = "Until then summaries are extractive; they are upgraded by themselves afterwards."


def model_problems(states: Mapping[str, Any], settings: ModelSettings) -> Iterator[Problem]:
    """What keeps this model from writing summaries, for `doctor`; `states` is what the ledger keeps of models."""
    kind = settings.kind
    if missing := settings.missing():
        yield missing._replace(why=f"{missing.why} {_MEANWHILE}")
    stopped = states.get(STOPPED, {})
    if stopped and stopped.get("fingerprint") == settings.fingerprint:
        fix = "Correct the key or the other settings of [summarizer]; the model is asked again once they have changed."
        yield Problem(f"{kind} refuses the key", f"{stopped['reason']} {_MEANWHILE}", fix)
    breaker = Breaker(**states.get(BREAKER, {}))
    if breaker.is_open(time.time_ns() // 1_000_000):
        until = datetime.fromtimestamp(breaker.open_until_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        fix = f"See whether the model answers at all; it is asked again after {until}."
        yield Problem(f"{kind} failed {breaker.failures} times in a row", f"{breaker.reason} {_MEANWHILE}", fix)
