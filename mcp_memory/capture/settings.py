"""What the hook must know before it does anything: where memory lives, and the few settings that concern it.

A full TOML parser takes half as long to load as everything else the hook does, and Python 3.9 has none. So a file of
plain lines, as nearly all are, is read here; any other by `tomllib`, or, where there is none, from what `config` wrote
down. What cannot be read for certain is taken in favour of privacy: unless it clearly says so, capture is not on.
"""

from __future__ import annotations

import json
import os
import re
import sys

TYPE_CHECKING = False  # typing costs the hook a quarter of its time, so only type checkers import it
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_ON = frozenset({"1", "true", "yes", "on"})
#: What `config` keeps beside config.toml for a Python that cannot read it: its settings, and which text they are of.
READ = "config.json"
_CONFIG = "config.toml"
_MOST_CHARS = 1_000_000
#: The sections of which the hook must know something.
_SECTIONS = ("capture", "brief", "recall")
#: The section of lines below something that may have been meant as a header.
_UNKNOWN = "?."
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def home_dir(env: Mapping[str, str]) -> str:
    """The data directory: MCP_MEMORY_HOME, or `mcp-memory` in the platform's place for user data."""
    chosen = env.get("MCP_MEMORY_HOME", "").strip()
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    if sys.platform == "win32":
        folder = env.get("LOCALAPPDATA") or os.path.expanduser(os.path.join("~", "AppData", "Local"))
    elif sys.platform == "darwin":
        folder = os.path.expanduser("~/Library/Application Support")
    else:
        folder = env.get("XDG_DATA_HOME", "")
        # The XDG specification says that relative paths are invalid and must be ignored.
        folder = folder if os.path.isabs(folder) else os.path.expanduser("~/.local/share")
    return os.path.join(folder, "mcp-memory")


def private_dir(path: str) -> str:
    """Make the directory, and what is missing above it, for its owner alone. One that exists keeps its mode.

    `os.makedirs` gives the mode to the last one only: a data directory made on the way to one in it would be open.
    """
    if not os.path.isdir(path):
        parent = os.path.dirname(path)
        if parent and parent != path:
            private_dir(parent)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:  # by another process, in this moment
            if not os.path.isdir(path):
                raise
    return path


def lazy(expression: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """A function that gives the expression, compiled when first used: the hook starts anew for every event."""
    made: list[re.Pattern[str]] = []

    def pattern() -> re.Pattern[str]:
        if not made:
            made.append(re.compile(expression, flags))
        return made[0]

    return pattern


def read_flat(path: str) -> dict[str, str]:
    """`section.key` → value, as text, of a TOML file; nothing if there is none. Never an error."""
    if not os.path.isfile(path):  # a pipe would be waited for
        return {}
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            text = file.read(_MOST_CHARS)
    except (OSError, ValueError):  # ValueError: no path at all, such as one with a NUL
        return {"enabled": "unreadable", "capture.enabled": "unreadable"}
    found = plain_lines(text)
    if found is None:
        try:
            import tomllib

            found = _flattened(tomllib.loads(text))
        except (ImportError, ValueError, RecursionError):
            found = _kept(path, text)
    if found is None:  # no TOML, or nothing here can read it
        found, _, doubtful = _read_lines(text.replace("\0", ""))
        found.update({"enabled": "doubtful", "capture.enabled": "doubtful"} if doubtful else {})
    return found


def plain_lines(text: str) -> dict[str, str] | None:
    """What a file of plain lines says: `[section]` and `key = value`. None if it holds anything else."""
    found, plain, _ = _read_lines(text)
    return found if plain else None


def _read_lines(text: str) -> tuple[dict[str, str], bool, bool]:
    """What the plain lines of a file say, whether there are no others, and whether one of them may forbid to capture.

    Where `enabled` stands in anything but a plain line under a plain header, it may well say no.
    """
    found: dict[str, str] = {}
    section, sections = "", {""}
    several_lines = '"""' in text or "'''" in text
    all_plain, doubtful = True, False
    for line in text.split("\n"):
        line = line.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        name, closed, rest = line[1:].partition("]")
        header = name.strip(" \t") + "."
        key, given, value = (part.strip(" \t") for part in line.partition("="))
        plain = _plain(value)
        if line.startswith("[") and _is_bare(header[:-1]) and _is_end(rest):
            all_plain = all_plain and bool(closed) and header not in sections
            section = header
            sections.add(section)
        elif given and _is_bare(key) and plain is not None and section != _UNKNOWN:
            all_plain = all_plain and section + key not in found
            found.setdefault(section + key, plain)
            doubtful = doubtful or (several_lines and key == "enabled")
        else:
            all_plain = False
            section = section if given and _is_bare(key) else _UNKNOWN  # it may have been meant as a header
            # An escape can spell any key, also one within braces.
            doubtful = doubtful or "enabled" in line or "\\" in (line if value.startswith("{") else key)
    return found, all_plain, doubtful


def _is_bare(name: str) -> bool:
    return bool(name) and _BARE.issuperset(name)


def _is_end(rest: str) -> bool:
    return rest.lstrip(" \t")[:1] in ("", "#")


def _plain(value: str) -> str | None:
    """A string on one line without escapes, true, false or a whole number; None if it is anything else."""
    quote = value[:1]
    if quote in ("'", '"'):
        inner, closed, rest = value[1:].partition(quote)
        odd = not closed or not _is_end(rest) or "\\" in inner or not inner.isprintable()
        return None if odd else inner
    word = value.partition("#")[0].rstrip(" \t")
    digits = word.replace("_", "")
    number = digits.isascii() and digits.isdigit() and (digits[0] != "0" or digits == "0")
    odd = "__" in word or word[:1] == "_" or word[-1:] == "_"
    return word if word in ("true", "false") or (number and not odd) else None


def _flattened(table: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a parsed file, each as text by its full name."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        under = {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
        found.update(under)
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in found.items()}


def keep(path: str, text: str, table: Mapping[str, Any]) -> None:
    """Write down what a file says to the hook, if it is not of plain lines: the hook's Python may have no parser."""
    if plain_lines(text) is not None:
        return
    said = {name: value for name, value in _flattened(table).items() if name.partition(".")[0] in _SECTIONS}
    kept = json.dumps({"of": _digest(text), "settings": said})
    target = os.path.join(os.path.dirname(path), READ)
    partial = "%s.%d.tmp" % (target, os.getpid())
    try:
        if _kept(path, text) != said:
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(kept)
            os.replace(partial, target)
    except OSError:
        return  # where nothing can be written, nothing can be captured


def _kept(path: str, text: str) -> dict[str, str] | None:
    """What was written down of this very text."""
    folder, name = os.path.split(path)
    if name != _CONFIG:  # beside a project's own file lie the project's
        return None
    try:
        with open(os.path.join(folder, READ), encoding="utf-8") as file:
            kept = json.load(file)
        if kept["of"] == _digest(text):
            return {str(name): str(value) for name, value in kept["settings"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass
    return None


def _digest(text: str) -> str:
    import hashlib  # few files need it

    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def is_off(value: str) -> bool:
    """Whether a setting's text means anything but yes. An empty one says nothing."""
    return bool(value.strip()) and value.strip().lower() not in _ON


class HookSettings:
    """What the hook may be told: to stay away, how long a text may be, whether to print the brief and to note that."""

    __slots__ = ("brief", "enabled", "keeps_handed", "max_event_bytes")

    def __init__(
        self, enabled: bool = True, max_event_bytes: int = 65_536, brief: bool = True, keeps_handed: bool = True
    ) -> None:
        self.enabled = enabled
        self.max_event_bytes = max_event_bytes
        self.brief = brief
        self.keeps_handed = keeps_handed


def read_settings(config: str, env: Mapping[str, str]) -> HookSettings:
    """What config.toml says; the environment wins. A bad value gives the default, or no capture; never an error."""
    file = read_flat(config)

    def setting(section: str, key: str) -> str:
        return env.get(f"MCP_MEMORY_{section}_{key}".upper(), "").strip() or file.get(f"{section}.{key}", "")

    # A value in the place of the section, or one without it, is an error that can mean one thing only.
    misplaced = file.get("capture", "") or file.get("enabled", "")

    size = setting("capture", "max_event_bytes").strip().replace("_", "")
    given = int(size) if size.isascii() and size.isdigit() and len(size) < 12 else 0
    return HookSettings(
        enabled=not is_off(setting("capture", "enabled") or misplaced),
        max_event_bytes=max(given, 1024) if given else HookSettings().max_event_bytes,
        brief=not is_off(setting("brief", "enabled")),
        keeps_handed=_days(setting("recall", "keep_days")) != 0,
    )


def _days(text: str) -> int | None:
    """A whole number; one that cannot be read means that nothing is kept, none that the default counts."""
    digits = text.strip().replace("_", "")
    if not digits:
        return None
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 9 else 0
