"""Settings: frozen, checked once at start. The only reader of the environment and of config.toml."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from mcp_memory.capture.home import home_dir
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


@dataclass(frozen=True, slots=True)
class Brief:
    enabled: bool = True
    budget_tokens: int = 1_200


@dataclass(frozen=True, slots=True)
class Index:
    kind: str = "fts5"


@dataclass(frozen=True, slots=True)
class Settings:
    home: Path
    calendar: Calendar = field(default_factory=Calendar)
    capture: Capture = field(default_factory=Capture)
    segmentation: Segmentation = field(default_factory=Segmentation)
    summarizer: SummarizerSettings = field(default_factory=SummarizerSettings)
    brief: Brief = field(default_factory=Brief)
    index: Index = field(default_factory=Index)
    project: str = ""
    now_ms: int | None = None

    @property
    def database(self) -> Path:
        return self.home / "memory.db"

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
        if isinstance(value, str) and value.strip().lstrip("-").isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low:,} to {high:,}")
        return value

    return check


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


def _zone(value: Any) -> str:
    if value == "":
        return ""
    try:
        return str(ZoneInfo(value).key)
    except Exception:
        raise ValueError('must be the name of a time zone, such as "Europe/Berlin"') from None


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
    "summarizer": {"kind": _choice("extractive")},
    "brief": {"enabled": _flag, "budget_tokens": _number(100, 1_500)},
    "index": {"kind": _choice("fts5")},
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
            raise SettingsError(f"{source}: {section}.{key} = {value!r} {error}.") from None
        settings = replace(settings, **{section: replace(getattr(settings, section), **{key: checked})})
    return settings


def zone_of(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def system_timezone() -> str:
    """The machine's zone, UTC where it cannot be told."""
    from tzlocal import get_localzone_name

    try:
        name = get_localzone_name() or "UTC"
        ZoneInfo(name)
    except Exception:
        return "UTC"
    return name


def defaults() -> dict[str, dict[str, Any]]:
    """Section → key → default, for the docs and their test."""
    blank = Settings(home=Path())
    return {
        section: {item.name: getattr(getattr(blank, section), item.name) for item in fields(getattr(blank, section))}
        for section in SETTINGS
    }


def _from_file(path: Path) -> list[tuple[str, str, str, Any]]:
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}. Correct the file or move it away.") from None
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} cannot be read: {error}. Correct the file or move it away.") from None
    found = []
    for section, entries in table.items():
        if section not in SETTINGS or not isinstance(entries, dict):
            raise SettingsError(f"{path}: [{section}] is not a section; known are {', '.join(SETTINGS)}.")
        for key, value in entries.items():
            if key not in SETTINGS[section]:
                raise SettingsError(
                    f"{path}: {section}.{key} is not a setting; known are {', '.join(SETTINGS[section])}."
                )
            found.append((str(path), section, key, value))
    return found


def _from_env(env: Mapping[str, str]) -> list[tuple[str, str, str, Any]]:
    names = {f"{PREFIX}{section}_{key}".upper(): (section, key) for section in SETTINGS for key in SETTINGS[section]}
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
