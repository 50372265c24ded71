"""`models`: a model is tried on one segment before it is set; which is set, and what it has done so far."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp_memory import config, sample
from mcp_memory.app import App
from mcp_memory.capture.redaction import redact
from mcp_memory.clients.jsonl import event_of_line
from mcp_memory.config import SummarizerSettings
from mcp_memory.domain.events import Captured, Event, EventQuery
from mcp_memory.domain.nodes import THRESHOLDS, Depth, Kind, NodeQuery, SegmentSummary
from mcp_memory.domain.text import safe
from mcp_memory.domain.toc import Level, local_day
from mcp_memory.errors import ModelMissing, SummarizerError, TransportFailed, UsageError
from mcp_memory.install.apply import write_private
from mcp_memory.install.catalog import EditError
from mcp_memory.install.toml_settings import with_values
from mcp_memory.models.providers import SERVICES
from mcp_memory.models.summarizer import ModelSummarizer, transcript
from mcp_memory.models.tokens import count
from mcp_memory.summaries import ExtractiveSummarizer
from mcp_memory.surfaces import output
from mcp_memory.surfaces.output import Answer

_SECTION, _SOURCE = "summarizer", "mcp-memory models use"
#: What suits a model on this machine, or a program, better than the defaults, which suit a paid service.
_SUITING: dict[str, dict[str, int]] = {
    "ollama": {"daily_token_cap": 50_000_000, "timeout_seconds": 300, "concurrency": 1},
    "command": {"timeout_seconds": 300, "concurrency": 2},
}
_LIMITS = ("daily_token_cap", "timeout_seconds", "concurrency")
_EXAMPLES = (
    "Say which: mcp-memory models use ollama --model qwen3:8b, models use anthropic, models use openai, or "
    "models use command 'claude -p'."
)
_RUNNING = "Servers that run go on as they were until they start anew."
#: How many of the latest segments are looked at for one to try a model on.
_LOOKED_AT = 50


async def models(app: App, options: argparse.Namespace) -> Answer:
    if options.action == "use":
        return await _use(app, options)
    if options.words or options.model or options.base_url or options.key_file:
        raise UsageError(f"`models {options.action}` takes nothing else. {_EXAMPLES}")
    return await (_off(app, options) if options.action == "off" else _show(app, options))


async def _show(app: App, options: argparse.Namespace) -> Answer:
    chosen, facts = app.settings.summarizer, await app.ledger.facts()
    ready = await app.caller.readiness() if app.caller else None
    llm = facts["llm"]
    shape = {
        "kind": chosen.kind,
        "model": chosen.preferred[0] if chosen.preferred else None,
        "where": _where(chosen),
        "key": _key(app.settings),
        "ready": ready is None or ready.width > 0,
        "reason": (ready.reason if ready else "") or None,
        "written_by": facts["written_by"],
        "today": llm["today"],
        "cap": llm["cap"],
        **{name: llm[name] for name in ("calls", "failed", "input_tokens", "output_tokens", "cost", "cost_today")},
        "config": str(app.settings.config_file),
    }
    return shape if options.json else output.facts(shape)


async def _off(app: App, options: argparse.Namespace) -> Answer:
    now = app.settings.summarizer
    if now.kind != "extractive":
        _unless_overruled(["kind"])
        _write(app.settings, {"kind": "extractive", **_limits(now, "extractive")})
    if options.json:
        return {"kind": "extractive", "was": now.kind, "config": str(app.settings.config_file)}
    written = (await app.ledger.facts())["written_by"]
    others = sum(nodes for author, nodes in written.items() if author != ExtractiveSummarizer.name)
    stays = f" The {others:,} nodes that models wrote stay until something in them changes." if others else ""
    return f"Summaries are extractive{' again' if now.kind != 'extractive' else ''}.{stays} {_RUNNING}"


async def _use(app: App, options: argparse.Namespace) -> Answer:
    values = _wanted(app.settings.summarizer, options)
    _unless_overruled([key for key in values if key not in _LIMITS])
    given = [(_SOURCE, _SECTION, key, value) for key, value in values.items()]
    settings = config.changed(app.settings, given, config.environment())
    chosen = settings.summarizer
    name = f"{chosen.kind}:{chosen.preferred[0]}"
    events, told = await _segment(app)
    if not options.yes and not _is_local(chosen):
        _agreed(f"{told} is sent to {_where(chosen)} to try it. Go on?")
    trial = replace(app, settings=settings)
    shape = {"set": False, "kind": chosen.kind, "model": chosen.preferred[0], "segment": told}
    with output.spinner(f"Asking {name}", enabled=not options.json):
        shape |= await _tried(trial, events, name)
    if not options.json:
        output.text(_comparison(shape, name))
    if options.yes or _agreed(f"Let {name} write the summaries from now on?"):
        _write(settings, values)
        shape |= {"set": True, "config": str(settings.config_file)}
    if options.json:
        return shape
    lines = [f"  {key} = {_shown(value)}" for key, value in values.items() if _is_set(key, value)]
    if settings.api_key and not chosen.api_key_file:
        lines.append(f"The key is in {_key(settings)}: servers that do not get that variable need --key-file.")
    waits = "`mcp-memory process --dry-run` says what waits and what it would take, `mcp-memory process` does it now."
    return "\n".join([f"Written to {settings.config_file}:", *lines, f"{_RUNNING} {waits}"])


def _wanted(now: SummarizerSettings, options: argparse.Namespace) -> dict[str, Any]:
    """What is to be set: of the same kind, what is not named stays; of another, it is as if nothing had been set."""
    kind, *program = options.words or [""]
    if kind not in (*SERVICES, "command"):
        raise UsageError(f"There is no kind of model {kind!r}. {_EXAMPLES}" if kind else _EXAMPLES)
    if program and kind != "command":
        raise UsageError(f"`models use {kind}` takes no {program[0]!r}; a model is named by --model. {_EXAMPLES}")
    kept = now if now.kind == kind else SummarizerSettings()
    # One word is a whole command line; several were split by the shell already.
    command = program[0] if len(program) == 1 else tuple(program)
    # A server is started elsewhere.
    key = str(Path(options.key_file).expanduser().absolute()) if options.key_file else None
    named = {"model": options.model, "base_url": options.base_url, "api_key_file": key, "command": command}
    values = {"kind": kind} | {key: value or getattr(kept, key) for key, value in named.items()}
    if kind == "ollama" and not values["model"] or kind == "command" and not values["command"]:
        raise UsageError(
            f"`models use {kind}` needs to know {'a model' if kind == 'ollama' else 'a program'}. {_EXAMPLES}"
        )
    values["models"] = "" if options.model else kept.models
    return values | _limits(now, kind)


def _limits(now: SummarizerSettings, kind: str) -> dict[str, int]:
    """Limits for a kind: those that the user chose, or else what suits it. What suited another kind was no choice."""
    values = {}
    for key in (key for key in _LIMITS if config.variable(_SECTION, key) not in config.environment()):
        value, default = getattr(now, key), getattr(SummarizerSettings(), key)
        unset = value in (default, _SUITING.get(now.kind, {}).get(key))
        values[key] = _SUITING.get(kind, {}).get(key, default) if unset else value
    return values


def _unless_overruled(keys: list[str]) -> None:
    """What is written to the file has no effect where a variable says something else."""
    env = config.environment()
    if overruling := [name for key in keys if (name := config.variable(_SECTION, key)) in env]:
        raise UsageError(f"{', '.join(overruling)} in the environment wins over config.toml. Unset it and try again.")


async def _segment(app: App) -> tuple[list[Event], str]:
    """A finished segment that one question is enough for, the newest of this project first, and what it is called.

    A memory that has none lends one of the sample history.
    """
    few, many = THRESHOLDS[Depth.NONE], THRESHOLDS[Depth.STANDARD]
    home = await app.store.project_of_root(*app.home)
    for project in dict.fromkeys([home, None]):
        latest = await app.store.nodes(NodeQuery.latest(project, Level.SEGMENT, _LOOKED_AT, bullets=False))
        fitting = [node for node in latest if node.session_id and not node.open and few <= node.weight < many]
        # One of some length tells more about a model than the short ones that end most days.
        for node in sorted(fitting, key=lambda node: node.weight < THRESHOLDS[Depth.BRIEF]):
            said = await app.store.events(EventQuery(project=node.project, session_id=node.session_id))
            events = [event for event in said if node.start_ms <= event.timestamp_ms <= node.end_ms]
            if few <= (tokens := count(transcript(events))) < many:
                return events, f"{node.node_id} ({local_day(node.start_ms, app.zone)}, {tokens:,} tokens)"
    sessions: dict[str, list[Captured]] = {}
    for line in sample.lines(datetime.fromtimestamp(app.clock.now_ms() / 1000, app.zone)):
        told = event_of_line(line)
        sessions.setdefault(told.session_id, []).append(told)
    lent = [app.intaker.prepare(own) for own in sessions.values()]
    short = [own for own in lent if count(transcript(own)) < many]
    return max(short, key=lambda own: count(transcript(own))), "A conversation of the sample history"


async def _tried(trial: App, events: list[Event], name: str) -> dict[str, Any]:
    """The segment's summary without and with the model, and what that took. Raises why the model cannot be set."""
    caller = trial.caller
    if caller is None:
        raise UsageError(_EXAMPLES)
    extractive = ExtractiveSummarizer()
    before = await extractive.segment(events, [])
    await caller.forgive()
    caller.tries, caller.reuses = 1, False
    spent, started = (await trial.ledger.facts())["llm"], time.monotonic()
    try:
        after = await ModelSummarizer(caller, extractive).segment(events, [])
    except SummarizerError as error:
        raise SummarizerError(f"{name} is not set: {error} {_hint(trial, error)}".strip()) from None
    taken, seconds = (await trial.ledger.facts())["llm"], round(time.monotonic() - started, 1)
    used = {key: taken[key] - spent[key] for key in ("calls", "input_tokens", "output_tokens")}
    price = trial.settings.summarizer.price_table.get(trial.settings.summarizer.preferred[0])
    dollars = (used["input_tokens"] * price[0] + used["output_tokens"] * price[1]) / 1_000_000 if price else None
    return {"before": _summary(before), "after": _summary(after), "took": {**used, "seconds": seconds, "cost": dollars}}


def _summary(summary: SegmentSummary) -> dict[str, Any]:
    bullets = [{"text": bullet.text, "kind": bullet.kind.value} for bullet in summary.bullets]
    return {"title": summary.title, "bullets": bullets, "written_by": summary.written_by or ExtractiveSummarizer.name}


def _hint(trial: App, error: SummarizerError) -> str:
    """What to do where the error itself cannot know."""
    chosen = trial.settings.summarizer
    if chosen.kind == "ollama" and isinstance(error, TransportFailed):
        return f"See whether Ollama runs at {_where(chosen)}: ollama serve"
    if chosen.kind == "ollama" and isinstance(error, ModelMissing):
        return f"Fetch it first: ollama pull {chosen.preferred[0]}"
    if chosen.kind != "command" and isinstance(error, TransportFailed):
        return f"See whether {_where(chosen)} can be reached from here."
    return ""


def _comparison(shape: Mapping[str, Any], name: str) -> str:
    lines = [f"{shape['segment']}:"]
    for heading, summary in (("Before (extractive)", shape["before"]), (f"After ({name})", shape["after"])):
        lines += ["", f"  {heading}", f"    {safe(summary['title'])}"]
        lines += [f"    - {safe(Kind(bullet['kind']).shown(bullet['text']), 220)}" for bullet in summary["bullets"]]
    took = shape["took"]
    price = f", ${took['cost']:.4f}" if took["cost"] is not None else ""
    tokens = f"{took['input_tokens']:,} tokens in, {took['output_tokens']:,} out"
    return "\n".join([*lines, "", f"It took {tokens}, {took['seconds']} s{price}.", ""])


def _agreed(question: str) -> bool:
    """Whether the user says so; raises if not, or if there is no one to ask."""
    answer = output.agreed(question)
    if not answer:
        raise UsageError("Nothing was changed." if answer is False else "There is no terminal to ask at: add --yes.")
    return True


def _where(chosen: SummarizerSettings) -> str | None:
    """Who gets the text."""
    if chosen.kind == "command":
        return redact(shlex.join(chosen.command))
    return chosen.base_url or SERVICES[chosen.kind].url if chosen.kind in SERVICES else None


def _is_local(chosen: SummarizerSettings) -> bool:
    host = urlsplit(str(_where(chosen))).hostname or ""
    return chosen.kind != "command" and (host in ("localhost", "::1") or host.startswith("127."))


def _key(settings: config.Settings) -> str | None:
    """Where the key comes from; never the key."""
    chosen = settings.summarizer
    if not settings.api_key:
        return None
    return chosen.api_key_file or f"{chosen.kind.upper()}_API_KEY"


def _write(settings: config.Settings, values: Mapping[str, Any]) -> None:
    """Put the values into config.toml, where all else stays as it is. What has its default needs no line."""
    path = settings.config_file
    lines = {key: value if _is_set(key, value) else None for key, value in values.items()}
    try:
        text = path.read_bytes().decode("utf-8") if path.exists() else ""
        changed = with_values(text, _SECTION, {key: _plain(value) for key, value in lines.items()})
    except (EditError, OSError, UnicodeDecodeError) as error:
        wanted = ", ".join(f"{key} = {_shown(value)}" for key, value in lines.items() if value is not None)
        raise UsageError(
            f"{path} cannot be changed: {error}. Write into its [{_SECTION}] yourself: {wanted}."
        ) from None
    if changed != text:
        write_private(path.resolve(), changed.encode("utf-8"))
        config.load()  # says so at once, should the file be wrong elsewhere, and tells the hook


def _is_set(key: str, value: Any) -> bool:
    return key == "kind" or value != getattr(SummarizerSettings(), key)


def _plain(value: Any) -> Any:
    """A command as one line, which the hook reads fastest, unless it holds what would have to be escaped there."""
    if not isinstance(value, tuple):
        return value
    line = shlex.join(value)
    return list(value) if set('"\\') & set(line) or not line.isprintable() else line


def _shown(value: Any) -> str:
    plain = _plain(value)
    return f'"{redact(plain)}"' if isinstance(plain, str) else str(plain)
