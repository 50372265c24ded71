"""The few settings that the hook needs, read line by line: Python 3.9 has no TOML parser, and a full one is slow."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_OFF = frozenset({"0", "false", "no", "off"})


def read_flat(path: str) -> dict[str, str]:
    """`section.key` → value, as text, of the simple lines of a TOML file; nothing if it cannot be read."""
    if not os.path.isfile(path):  # a pipe would be waited for
        return {}
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            lines = file.read(1_000_000).splitlines()
    except (OSError, ValueError):  # ValueError: no path at all, such as one with a NUL
        return {}
    found: dict[str, str] = {}
    section = ""
    for line in lines:
        line = line.strip()
        if line.startswith("["):
            section = line.split("#")[0].strip("[] \t") + "."
        elif "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[section + key.strip().strip("\"'")] = _plain(value.strip())
    return found


def _plain(value: str) -> str:
    if value[:1] in ("'", '"'):
        return value[1:].partition(value[0])[0]
    return value.partition("#")[0].strip()


def is_off(value: str) -> bool:
    """Whether a setting's text means no. An empty one says nothing."""
    return value.strip().lower() in _OFF


class Settings:
    """What the hook may be told: to stay away, how long a text may be, and whether to print the brief."""

    __slots__ = ("brief", "enabled", "max_event_bytes")

    def __init__(self, enabled: bool = True, max_event_bytes: int = 65_536, brief: bool = True) -> None:
        self.enabled = enabled
        self.max_event_bytes = max_event_bytes
        self.brief = brief


def read_settings(config: str, env: Mapping[str, str]) -> Settings:
    """What config.toml says; the environment wins. A bad value gives the default, never an error."""
    file = read_flat(config)

    def setting(section: str, key: str) -> str:
        return env.get(f"MCP_MEMORY_{section}_{key}".upper(), "") or file.get(f"{section}.{key}", "")

    size = setting("capture", "max_event_bytes").replace("_", "")
    given = int(size) if size.isascii() and size.isdigit() and len(size) < 12 else 0
    return Settings(
        enabled=not is_off(setting("capture", "enabled")),
        max_event_bytes=max(given, 1024) if given else Settings().max_event_bytes,
        brief=not is_off(setting("brief", "enabled")),
    )
