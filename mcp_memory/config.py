"""Settings: frozen, checked once at start. The only reader of the environment and of config.toml."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from mcp_memory.capture.settings import home_dir, keep
from mcp_memory.domain.compaction import parse_table
from mcp_memory.errors import SettingsError

PREFIX = "MCP_MEMORY_"


@dataclass(frozen=True, slots=True)
class Calendar:
    timezone: str = ""


@dataclass(frozen=True, slots=True)
class Capture:
    enabled: bool = True
    max_event_bytes: int = 65_536


@dataclass(frozen=True, slots=True)
class Segmentation:
    gap_minutes: int = 30
    max_tokens: int = 4_000
    overlap_minutes: int = 5
    overlap_tokens: int = 500
    tool_result_chars: int = 1_000


@dataclass(frozen=True, slots=True)
class SummarizerSettings:
    kind: str = "extractive"
    model: str = ""
    models: str = ""
    base_url: str = ""
    api_key_file: str = ""
    daily_token_cap: int = 200_000
    max_output_tokens: int = 1_024
    timeout_seconds: int = 60
    concurrency: int = 4
    prices: str = ""

    @property
    def preferred(self) -> tuple[str, ...]:
        """The models to ask, in order."""
        listed = [self.model, *self.models.split(",")]
        named = tuple(dict.fromkeys(name.strip() for name in listed if name.strip()))
        return named or ((_DEFAULT_MODELS[self.kind],) if self.kind in _DEFAULT_MODELS else ())

    @property
    def price_table(self) -> dict[str, tuple[float, float]]:
        """Dollars for a million tokens of input and of output, by model."""
        entries = [entry.rpartition("=") for entry in self.prices.split(",") if entry.strip()]
        return {name.strip(): _price(price) for name, _, price in entries}


_DEFAULT_MODELS = {"anthropic": "claude-haiku-5-5", "openai": "gpt-5.4-mini"}


def _price(text: str) -> tuple[float, float]:
    given, _, out = text.partition("/")
    return float(given), float(out)


@dataclass(frozen=True, slots=True)
class Brief:
    enabled: bool = True
    budget_tokens: int = 1_200


@dataclass(frozen=True, slots=True)
class Privacy:
    isolate: bool = False


@dataclass(frozen=True, slots=True)
class Backup:
    keep: int = 2


@dataclass(frozen=True, slots=True)
class Index:
    kind: str = "fts5"


@dataclass(frozen=True, slots=True)
class Compaction:
    enabled: bool = True
    trigger_ratio: float = 0.8
    reset_ratio: float = 0.7
    min_messages: int = 12
    preserve_recent: int = 6
    max_depth: int = 3
    cooldown_messages: int = 4
    refresh_after_messages: int = 0
    context_lengths: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    home: Path
    calendar: Calendar = field(default_factory=Calendar)
    capture: Capture = field(default_factory=Capture)
    segmentation: Segmentation = field(default_factory=Segmentation)
    summarizer: SummarizerSettings = field(default_factory=SummarizerSettings)
    brief: Brief = field(default_factory=Brief)
    privacy: Privacy = field(default_factory=Privacy)
    backup: Backup = field(default_factory=Backup)
    index: Index = field(default_factory=Index)
    compaction: Compaction = field(default_factory=Compaction)
    project: str = ""
    now_ms: int | None = None
    client_folders: Mapping[str, Path] = field(default_factory=dict)
    #: The key of the model's provider; it is shown nowhere.
    api_key: str = field(default="", repr=False)

    @property
    def database(self) -> Path:
        return self.home / "memory.db"

    @property
    def whoosh(self) -> Path:
        return self.home / "whoosh"

    @property
    def spool(self) -> Path:
        return self.home / "spool"

    @property
    def token_file(self) -> Path:
        return self.home / "token"

    @property
    def config_file(self) -> Path:
        return self.home / "config.toml"


Check = Callable[[Any], Any]


def _number(low: int, high: int) -> Check:
    def check(value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,15}\s*", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low:,} to {high:,}")
        return value

    return check


def _ratio(value: Any) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 0.0
    except ValueError:
        number = 0.0
    if not 0.1 <= number <= 1.0:
        raise ValueError("must be a number from 0.1 to 1.0")
    return number


def _lengths(value: Any) -> str:
    """`model=tokens, …`; a table of the same in config.toml."""
    if isinstance(value, dict):
        value = ", ".join(f"{name}={tokens}" for name, tokens in value.items())
    try:
        parse_table(value)
    except (ValueError, AttributeError):
        raise ValueError('must be tokens by model, 256 to 100,000,000, such as "my-model=32768, other=8192"') from None
    return str(value)


def _flag(value: Any) -> bool:
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if isinstance(value, str):
        value = known.get(value.strip().lower())
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _choice(*allowed: str) -> Check:
    def check(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of: {', '.join(allowed)}")
        return str(value)

    return check


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value.strip()


def _model(value: Any) -> str:
    """A model's name stands in messages and in the database, so that a key in its place must go no further."""
    name = _text(value)
    if _is_key(name):
        raise ValueError("looks like a key; name a model here, and put the key into the file of api_key_file")
    return name


def _models(value: Any) -> str:
    """Names with commas between them; a list of them in config.toml."""
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise ValueError("must be names with commas between them")
    return ", ".join(_model(name) for name in listed if name.strip())


def _redacted(text: str) -> str:
    # Settings are read before a server's first answer, and few of them look like a secret.
    from mcp_memory.capture.redaction import redact

    return redact(text)


def _is_key(text: str) -> bool:
    return bool(_KEY.search(text)) or _redacted(text) != text


def _shown(value: Any) -> str:
    """A value that was refused, without the secret that may stand in the wrong place."""
    return _KEY.sub("…", re.sub(r"//[^/@]*@", "//…@", _redacted(repr(value))))


#: How keys of providers begin, even of one that was cut short.
_KEY = re.compile(r"(?<![\w/.~-])(?:sk|gsk|xai|pplx)[-_][\w-]*")


def _url(value: Any) -> str:
    if value != "" and not _is_address(value):
        raise ValueError("must be an http or https address such as http://127.0.0.1:11434/v1, without a password")
    return str(value).rstrip("/")


def _is_address(value: Any) -> bool:
    """Whether it is an address of the web that holds no secret."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        web = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
    return web and parts is not None and not (parts.username or parts.password or parts.query)


def _prices(value: Any) -> str:
    """`model=input/output, …`; a table of the same in config.toml."""
    if isinstance(value, dict):
        value = ", ".join(f"{name}={price}" for name, price in value.items())
    try:
        table = SummarizerSettings(prices=value).price_table
        good = all(name and min(price) >= 0 and isfinite(sum(price)) for name, price in table.items())
    except (ValueError, AttributeError):
        good = False
    if not good:
        raise ValueError('must be dollars for a million tokens, input/output, such as "some-model=0.8/4"')
    return str(value)


def _zone(value: Any) -> str:
    if value == "":
        return ""
    try:
        return str(ZoneInfo(value).key)
    except Exception:
        raise ValueError('must be the name of a time zone, such as "Europe/Berlin"') from None


#: The clients' own variables, which say where they keep their settings and transcripts.
CLIENT_VARIABLES = {"claude-code": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "gemini": "GEMINI_CLI_HOME"}

#: Every setting with the check it must pass: section → key → check. The docs list the same names.
SETTINGS: dict[str, dict[str, Check]] = {
    "calendar": {"timezone": _zone},
    "capture": {"enabled": _flag, "max_event_bytes": _number(1_024, 16_777_216)},
    "segmentation": {
        "gap_minutes": _number(1, 1_440),
        "max_tokens": _number(200, 100_000),
        "overlap_minutes": _number(0, 60),
        "overlap_tokens": _number(0, 10_000),
        "tool_result_chars": _number(100, 100_000),
    },
    "summarizer": {
        "kind": _choice("extractive", "anthropic", "openai"),
        "model": _model,
        "models": _models,
        "base_url": _url,
        "api_key_file": _text,
        "daily_token_cap": _number(0, 1_000_000_000),
        "max_output_tokens": _number(128, 32_000),
        "timeout_seconds": _number(1, 3_600),
        "concurrency": _number(1, 32),
        "prices": _prices,
    },
    "brief": {"enabled": _flag, "budget_tokens": _number(100, 1_500)},
    "compaction": {
        "enabled": _flag,
        "trigger_ratio": _ratio,
        "reset_ratio": _ratio,
        "min_messages": _number(3, 10_000),
        "preserve_recent": _number(2, 100),
        "max_depth": _number(1, 20),
        "cooldown_messages": _number(0, 10_000),
        "refresh_after_messages": _number(0, 1_000_000),
        "context_lengths": _lengths,
    },
    "privacy": {"isolate": _flag},
    "backup": {"keep": _number(0, 100)},
    "index": {"kind": _choice("fts5", "whoosh")},
}


def load(env: Mapping[str, str] | None = None) -> Settings:
    """Read config.toml and the environment, which wins."""
    env = os.environ if env is None else env
    settings = Settings(
        home=Path(home_dir(dict(env))), project=env.get("MCP_MEMORY_PROJECT", ""), now_ms=_fixed_now(env)
    )
    given = [*_from_file(settings.config_file), *_from_env(env)]
    for source, section, key, value in given:
        try:
            checked = SETTINGS[section][key](value)
        except ValueError as error:
            raise SettingsError(f"{source}: {section}.{key} = {_shown(value)} {error}.") from None
        settings = replace(settings, **{section: replace(getattr(settings, section), **{key: checked})})
    if settings.compaction.reset_ratio >= settings.compaction.trigger_ratio:
        raise SettingsError(
            f"compaction.reset_ratio = {settings.compaction.reset_ratio} must be below compaction.trigger_ratio = "
            f"{settings.compaction.trigger_ratio}, in {settings.config_file} or the environment."
        )
    return replace(settings, api_key=_api_key(settings.summarizer, env), client_folders=_client_folders(env))


def _client_folders(env: Mapping[str, str]) -> dict[str, Path]:
    """The folders that clients were told to use instead of their own in the home directory."""
    moved = {client: env.get(variable, "") for client, variable in CLIENT_VARIABLES.items()}
    return {client: Path(folder).expanduser().absolute() for client, folder in moved.items() if folder}


def _api_key(chosen: SummarizerSettings, env: Mapping[str, str]) -> str:
    """The provider's key, from the file that is named or from the environment; never from config.toml."""
    if chosen.kind == "extractive":
        return ""
    if chosen.api_key_file:
        path = Path(chosen.api_key_file).expanduser()
        try:
            return path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            # A user who put the key itself here should not find it in a log.
            is_path = ("/" in str(path) or os.sep in str(path)) and not _is_key(str(path))
            shown = f"summarizer.api_key_file = {str(path)!r}" if is_path else "summarizer.api_key_file"
            raise SettingsError(f"{shown} cannot be read: {why}. Name a file that holds the key alone.") from None
    found = env.get("ANTHROPIC_API_KEY", "") if chosen.kind == "anthropic" else env.get("OPENAI_API_KEY", "")
    return found.strip()


def defaults() -> dict[str, dict[str, Any]]:
    """Section → key → default, for the docs and their test."""
    blank = Settings(home=Path())
    return {
        section: {item.name: getattr(getattr(blank, section), item.name) for item in fields(getattr(blank, section))}
        for section in SETTINGS
    }


Given = tuple[str, str, str, Any]


def _from_file(path: Path) -> list[Given]:
    """Where it is given, section, key and value of each setting in config.toml."""
    text = _text_in(path)
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
        if section not in SETTINGS or not isinstance(entries, dict):
            raise SettingsError(f"{path}: [{section}] is not a section; known are {', '.join(SETTINGS)}.")
        for key, value in entries.items():
            if key not in SETTINGS[section]:
                known = ", ".join(SETTINGS[section])
                raise SettingsError(f"{path}: {section}.{key} is not a setting; known are {known}.")
            found.append((str(path), section, key, value))
    return found


def _text_in(path: Path) -> str:
    """What a file holds; nothing if there is none."""
    try:
        if path.is_fifo():
            raise SettingsError(f"{path} is a pipe, which would be waited for. Put a file in its place.")
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        return ""
    except NotADirectoryError:
        raise SettingsError(f"{path.parent} is no directory. Set MCP_MEMORY_HOME to one.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}. Correct the file or move it away.") from None


def _from_env(env: Mapping[str, str]) -> list[Given]:
    """The same of each setting in the environment."""
    names = {f"{PREFIX}{section}_{key}".upper(): (section, key) for section in SETTINGS for key in SETTINGS[section]}
    for section in SETTINGS:
        _refuse_unknown(env, f"{PREFIX}{section}_".upper(), names)
    return [(f"environment variable {name}", *names[name], value) for name, value in env.items() if name in names]


def _refuse_unknown(env: Mapping[str, str], start: str, names: Collection[str]) -> None:
    for given in env:
        if given.startswith(start) and given not in names:
            known = ", ".join(name for name in names if name.startswith(start))
            raise SettingsError(f"environment variable {given} is not a setting; known are {known}.")


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
