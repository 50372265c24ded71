"""Settings: frozen, checked once at start. The only reader of the environment and of config.toml.

A setting is one row below: its section, name and type, its default, and what is allowed. Variables, checks and error
messages are made from these rows, and the docs are checked against them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_memory.capture.settings import home_dir, keep
from mcp_memory.errors import SettingsError
from mcp_memory.setting_kinds import (
    KEY,
    a_command,
    a_database,
    a_model,
    a_text,
    a_url,
    a_zone,
    by_model,
    choice,
    flag,
    is_key,
    lengths_of,
    models,
    number,
    prices_of,
    ratio,
    redacted,
    setting,
)

if TYPE_CHECKING:
    from mcp_memory.domain.segments import Rules

PREFIX = "MCP_MEMORY_"
_DEFAULT_MODELS = {"anthropic": "claude-haiku-5-5", "openai": "gpt-5.4-mini"}
#: Without these a kind of summarizer cannot be asked: the setting, and what to write there.
_NEEDED = {
    "ollama": ("model", 'a model that `ollama list` shows, such as "qwen3:8b"'),
    "command": ("command", 'a program that answers a prompt on standard input, such as "claude -p"'),
}


@dataclass(frozen=True, slots=True)
class Calendar:
    timezone: str = setting("", a_zone, "a time zone's name")


@dataclass(frozen=True, slots=True)
class Capture:
    enabled: bool = flag(True)
    max_event_bytes: int = number(65_536, 1_024, 16_777_216)


@dataclass(frozen=True, slots=True)
class Segmentation:
    gap_minutes: int = number(30, 1, 1_440)
    max_tokens: int = number(4_000, 200, 100_000)
    overlap_minutes: int = number(5, 0, 60)
    overlap_tokens: int = number(500, 0, 10_000)
    tool_result_chars: int = number(1_000, 100, 100_000)

    @property
    def rules(self) -> Rules:
        """The same as segmenting takes it."""
        from mcp_memory.domain.segments import Rules  # a server has no time to load it before its first answer

        return Rules(
            gap_ms=self.gap_minutes * 60_000,
            max_tokens=self.max_tokens,
            overlap_ms=self.overlap_minutes * 60_000,
            overlap_tokens=self.overlap_tokens,
        )


@dataclass(frozen=True, slots=True)
class SummarizerSettings:
    kind: str = choice("extractive", "anthropic", "openai", "ollama", "command")
    command: tuple[str, ...] = setting((), a_command, "a program and its arguments")
    model: str = setting("", a_model, "a model's name")
    models: str = setting("", models, "names with commas between them")
    base_url: str = setting("", a_url, "an http or https address")
    api_key_file: str = setting("", a_text, "a path")
    daily_token_cap: int = number(200_000, 0, 1_000_000_000)
    max_output_tokens: int = number(1_024, 128, 32_000)
    timeout_seconds: int = number(60, 1, 3_600)
    concurrency: int = number(4, 1, 32)
    prices: str = by_model(
        prices_of,
        "in dollars for a million tokens",
        'dollars for a million tokens, input/output, such as "some-model=0.8/4"',
    )

    @property
    def preferred(self) -> tuple[str, ...]:
        """The models to ask, in order."""
        if self.kind == "command":  # it chooses by itself; the name is for whoever reads its summaries
            return (self.model or Path(self.command[0]).stem,)
        listed = [self.model, *self.models.split(",")]
        named = tuple(dict.fromkeys(name.strip() for name in listed if name.strip()))
        return named or ((_DEFAULT_MODELS[self.kind],) if self.kind in _DEFAULT_MODELS else ())

    @property
    def price_table(self) -> dict[str, tuple[float, float]]:
        """Dollars for a million tokens of input and of output, by model."""
        return prices_of(self.prices)


@dataclass(frozen=True, slots=True)
class Brief:
    enabled: bool = flag(True)
    budget_tokens: int = number(1_200, 100, 1_500)


@dataclass(frozen=True, slots=True)
class Compaction:
    enabled: bool = flag(True)
    trigger_ratio: float = ratio(0.8)
    reset_ratio: float = ratio(0.7)
    min_messages: int = number(12, 3, 10_000)
    preserve_recent: int = number(6, 2, 100)
    max_depth: int = number(3, 1, 20)
    cooldown_messages: int = number(4, 0, 10_000)
    refresh_after_messages: int = number(0, 0, 1_000_000)
    context_lengths: str = by_model(
        lengths_of,
        "from 256 to 100,000,000",
        'tokens by model, 256 to 100,000,000, such as "my-model=32768, other=8192"',
    )


@dataclass(frozen=True, slots=True)
class Recall:
    keep_days: int = number(90, 0, 3_650)


@dataclass(frozen=True, slots=True)
class Notes:
    ask: bool = flag(True)


@dataclass(frozen=True, slots=True)
class Privacy:
    isolate: bool = flag(False)


@dataclass(frozen=True, slots=True)
class Backup:
    keep: int = number(2, 0, 100)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    url: str = setting("", a_database, "a postgresql:// address")
    keep_quarters: int = number(0, 0, 400)


@dataclass(frozen=True, slots=True)
class Team:
    timeout_ms: int = number(500, 50, 10_000)


@dataclass(frozen=True, slots=True)
class Index:
    kind: str = choice("fts5", "whoosh")


class _Place:
    """A file or folder in the data directory."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, settings: Settings, _: type) -> Path:
        return settings.home / self._name


@dataclass(frozen=True, slots=True)
class Settings:
    home: Path
    calendar: Calendar = field(default_factory=Calendar)
    capture: Capture = field(default_factory=Capture)
    segmentation: Segmentation = field(default_factory=Segmentation)
    summarizer: SummarizerSettings = field(default_factory=SummarizerSettings)
    brief: Brief = field(default_factory=Brief)
    compaction: Compaction = field(default_factory=Compaction)
    recall: Recall = field(default_factory=Recall)
    notes: Notes = field(default_factory=Notes)
    privacy: Privacy = field(default_factory=Privacy)
    backup: Backup = field(default_factory=Backup)
    index: Index = field(default_factory=Index)
    team: Team = field(default_factory=Team)
    store: StoreSettings = field(default_factory=StoreSettings, repr=False)
    project: str = ""
    now_ms: int | None = None
    #: The key of the model's provider; it is shown nowhere.
    api_key: str = field(default="", repr=False)

    database, inbox = _Place("memory.db"), _Place("inbox.db")
    whoosh, spool = _Place("whoosh"), _Place("spool")
    token_file, config_file = _Place("token"), _Place("config.toml")
    #: The sessions of browsers that look at the memory.
    browsers = _Place("browsers")
    #: Who one is on a team's server; without it there is no team.
    account = _Place("team.json")
    #: What was last heard of it.
    team_known = _Place("team-known.json")


Rows = dict[str, dict[str, "Field[Any]"]]


def rows_of(kind: type[Settings]) -> Rows:
    """Section → key → row of every setting that a class of settings has."""
    sections: dict[str, Any] = {part.name: part.default_factory for part in fields(kind)}
    return {
        name: {row.name: row for row in fields(section)} for name, section in sections.items() if is_dataclass(section)
    }


def variable(section: str, key: str = "") -> str:
    """The name of a setting's environment variable, or how those of a section begin."""
    return f"{PREFIX}{section}_{key}".upper()


def environment() -> Mapping[str, str]:
    """The variables of this process, for whom they are passed on to: no other module reads them by itself."""
    return os.environ


def system_timezone() -> str:
    """The machine's zone, UTC where it cannot be told."""
    from zoneinfo import ZoneInfo

    from tzlocal import get_localzone_name

    try:
        name = get_localzone_name() or "UTC"
        ZoneInfo(name)
    except Exception:
        return "UTC"
    return name


def load(env: Mapping[str, str] | None = None, kind: type[Settings] = Settings) -> Settings:
    """Read config.toml and the environment, which wins."""
    env = os.environ if env is None else env
    settings = kind(home=Path(home_dir(dict(env))), project=env.get("MCP_MEMORY_PROJECT", ""), now_ms=_fixed_now(env))
    rows = rows_of(kind)
    return changed(settings, [*_from_file(settings.config_file, rows), *_from_env(env, rows)], env)


def changed(settings: Settings, given: Iterable[Given], env: Mapping[str, str]) -> Settings:
    """The settings with these in place of what they were, each checked, and all of them together."""
    rows = rows_of(type(settings))
    for source, section, key, value in given:
        try:
            checked = rows[section][key].metadata["check"](value)
        except ValueError as error:
            shown = KEY.sub("…", re.sub(r"//.*@", "//…@", redacted(repr(value))))
            raise SettingsError(f"{source}: {section}.{key} = {shown} {error}.") from None
        settings = replace(settings, **{section: replace(getattr(settings, section), **{key: checked})})
    if settings.compaction.reset_ratio >= settings.compaction.trigger_ratio:
        raise SettingsError(
            f"compaction.reset_ratio = {settings.compaction.reset_ratio} must be below compaction.trigger_ratio = "
            f"{settings.compaction.trigger_ratio}, in {settings.config_file} or the environment."
        )
    chosen = settings.summarizer
    key, what = _NEEDED.get(chosen.kind, ("", ""))
    if key and not (chosen.preferred if key == "model" else chosen.command):
        raise SettingsError(
            f"summarizer.kind = {chosen.kind!r} needs summarizer.{key}: {what}. Write it into {settings.config_file}, "
            'or set the kind to "extractive".'
        )
    return replace(settings, api_key=_api_key(chosen, env))


#: Where a setting is given, its section, key and value.
Given = tuple[str, str, str, Any]


def _from_file(path: Path, rows: Rows) -> list[Given]:
    try:
        if path.is_fifo():
            raise SettingsError(f"{path} is a pipe, which would be waited for. Put a file in its place.")
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise SettingsError(f"{path.parent} is not a directory. Set MCP_MEMORY_HOME to one.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}. Correct the file or move it away.") from None
    if not text:
        return []
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} cannot be read: {error}. Correct the file or move it away.") from None
    keep(str(path), text, table)
    found: list[Given] = []
    for section, entries in table.items():
        if section not in rows or not isinstance(entries, dict):
            raise SettingsError(f"{path}: [{section}] is not a section; known are {', '.join(rows)}.")
        for key, value in entries.items():
            if key not in rows[section]:
                known = ", ".join(rows[section])
                raise SettingsError(f"{path}: {section}.{key} is not a setting; known are {known}.")
            found.append((str(path), section, key, value))
    return found


def _from_env(env: Mapping[str, str], rows: Rows) -> list[Given]:
    names = {variable(section, key): (section, key) for section in rows for key in rows[section]}
    for start in map(variable, rows):
        for given in env:
            if given.startswith(start) and given not in names:
                known = ", ".join(name for name in names if name.startswith(start))
                raise SettingsError(f"environment variable {given} is not a setting; known are {known}.")
    return [(f"environment variable {name}", *names[name], value) for name, value in env.items() if name in names]


def _fixed_now(env: Mapping[str, str]) -> int | None:
    """MCP_MEMORY_NOW stands the clock still, so that time phrases can be tried on old history."""
    given = env.get("MCP_MEMORY_NOW", "")
    if not given:
        return None
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise SettingsError(f"environment variable MCP_MEMORY_NOW = {given!r} must be an ISO 8601 time.") from None
    return round(moment.astimezone().timestamp() * 1000)


def _api_key(chosen: SummarizerSettings, env: Mapping[str, str]) -> str:
    """The provider's key, from the file that is named or from the environment; never from config.toml."""
    if chosen.kind in ("extractive", "command"):
        return ""
    if chosen.api_key_file:
        path = Path(chosen.api_key_file).expanduser()
        try:
            return path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            # A user who put the key itself here should not find it in a log.
            is_path = ("/" in str(path) or os.sep in str(path)) and not is_key(str(path))
            shown = f"summarizer.api_key_file = {str(path)!r}" if is_path else "summarizer.api_key_file"
            raise SettingsError(f"{shown} cannot be read: {why}. Name a file that holds the key alone.") from None
    if chosen.kind == "ollama":  # a key for OpenAI is none of its business
        return ""
    found = env.get("ANTHROPIC_API_KEY", "") if chosen.kind == "anthropic" else env.get("OPENAI_API_KEY", "")
    return found.strip()
