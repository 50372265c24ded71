"""Kinds of settings: what each may hold, and what is said of a value that it may not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from math import isfinite
from typing import Any
from zoneinfo import ZoneInfo

_FLAGS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
#: How keys of providers begin, even of one that was cut short.
KEY = re.compile(r"(?<![\w/.~-])(?:sk|gsk|xai|pplx)[-_][\w-]*")


def setting(default: Any, check: Callable[[Any], Any], allowed: str = "") -> Any:
    """A row: the check gives the value as it is used, or raises what it must be; `allowed` says so in the docs."""
    return field(default=default, metadata={"check": check, "allowed": allowed})


def number(default: int, low: int, high: int) -> Any:
    def check(value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,15}\s*", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low:,} to {high:,}")
        return value

    return setting(default, check, f"{low:,} to {high:,}")


def ratio(default: float) -> Any:
    def check(value: Any) -> float:
        try:
            share = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 0.0
        except ValueError:
            share = 0.0
        if not 0.1 <= share <= 1.0:
            raise ValueError("must be a number from 0.1 to 1.0")
        return share

    return setting(default, check, "0.1 to 1.0")


def flag(default: bool) -> Any:
    def check(value: Any) -> bool:
        if isinstance(value, str):
            value = _FLAGS.get(value.strip().lower())
        if not isinstance(value, bool):
            raise ValueError("must be true or false")
        return value

    return setting(default, check, "true, false")


def choice(*allowed: str) -> Any:
    """One of these; the first is the default."""

    def check(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of: {', '.join(allowed)}")
        return str(value)

    return setting(allowed[0], check, ", ".join(allowed))


def a_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value.strip()


def a_zone(value: Any) -> str:
    try:
        return str(ZoneInfo(value).key) if value != "" else ""
    except Exception:
        raise ValueError('must be the name of a time zone, such as "Europe/Berlin"') from None


def a_model(value: Any) -> str:
    """A model's name stands in messages and in the database, so that a key in its place must go no further."""
    name = a_text(value)
    if is_key(name):
        raise ValueError("looks like a key; name a model here, and put the key into the file of api_key_file")
    return name


def models(value: Any) -> str:
    """Names with commas between them; a list of them in config.toml."""
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise ValueError("must be names with commas between them")
    return ", ".join(a_model(name) for name in listed if name.strip())


def a_command(value: Any) -> tuple[str, ...]:
    """A program and its arguments: a list, or one text, quoted as for a shell; none of them is run by one."""
    from shlex import split  # few set it

    try:
        words = tuple(split(value)) if isinstance(value, str) else tuple(value)
    except (ValueError, TypeError):
        words = (None,)
    if not all(isinstance(word, str) and "\0" not in word for word in words) or words[:1] == ("",):
        raise ValueError('must be a program and its arguments, such as "claude -p" or ["claude", "-p"]')
    return words


def a_url(value: Any) -> str:
    """An address of the web that holds no secret."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(a_text(value))
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
        good = good and not (parts.username or parts.password or parts.query)
    except ValueError:
        good = False
    if value != "" and not good:
        raise ValueError("must be an http or https address such as http://127.0.0.1:11434/v1, without a password")
    return str(value).rstrip("/")


def a_database(value: Any) -> str:
    """The address of a PostgreSQL database; it may hold a password, so it is shown nowhere."""
    from urllib.parse import urlsplit

    url = a_text(value)
    try:
        good = not url or (urlsplit(url).scheme in ("postgresql", "postgres") and bool(urlsplit(url).path.strip("/")))
    except ValueError:
        good = False
    if not good:
        raise ValueError("must be an address such as postgresql://user@host/database")
    if "@" in url.partition("@")[2].partition("?")[0]:
        raise ValueError("holds a password with signs that part an address: write @ as %40, / as %2F and : as %3A")
    return url


def by_model(parse: Callable[[str], object], allowed: str, needed: str) -> Any:
    """`model=value, …`; a table of the same in config.toml."""

    def check(value: Any) -> str:
        if isinstance(value, dict):
            value = ", ".join(f"{name}={given}" for name, given in value.items())
        try:
            parse(value)
        except (ValueError, AttributeError):
            raise ValueError(f"must be {needed}") from None
        return str(value)

    return setting("", check, allowed)


def prices_of(text: str) -> dict[str, tuple[float, float]]:
    table = {}
    for entry in filter(str.strip, text.split(",")):
        name, _, price = entry.rpartition("=")
        given, _, out = price.partition("/")
        pair = table[name.strip()] = (float(given), float(out))
        if not name.strip() or min(pair) < 0 or not isfinite(sum(pair)):
            raise ValueError(entry)
    return table


def lengths_of(text: str) -> object:
    from mcp_memory.domain.compaction import parse_table  # few set it, and a server has no time to load it

    return parse_table(text)


def is_key(text: str) -> bool:
    return bool(KEY.search(text)) or redacted(text) != text


def redacted(text: str) -> str:
    # Settings are read before a server's first answer, and few of them look like a secret.
    from mcp_memory.capture.redaction import redact

    return redact(text)
