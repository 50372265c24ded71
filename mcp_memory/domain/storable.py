"""Values as every database can hold them: text without NUL and lone surrogates, bounded names, finite numbers.

Events pass through here when they are captured and once more when they are handed to the store (`domain/events.py`), so
that no way in goes past it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

from mcp_memory.capture.clipping import clean

#: Characters that stay of a long name, and of a long path or address. A hash of the whole follows.
#: PostgreSQL takes 2,704 bytes into an index, and a character may have four.
MAX_NAME_CHARS, MAX_PLACE_CHARS = 200, 500
_HASH_CHARS = 16
#: Levels of lists and objects in metadata.
MAX_DEPTH = 100
_TOO_DEEP = "[… nested too deep …]"
#: Numbers beyond this many bits are kept as text: databases and other JSON readers would round or refuse them.
_MAX_BITS = 63


def bounded_name(name: str, most: int = MAX_NAME_CHARS) -> str:
    """Return a clean name: of a long one the beginning and a hash of all of it, so that the same name stays the same.

    A name that was bounded before is left as it is.
    """
    name = clean(name)
    if len(name) <= most + 1 + _HASH_CHARS:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=_HASH_CHARS // 2).hexdigest()
    return f"{name[:most]}~{digest}"


def storable_json(value: Any, depth: int = 0) -> Any:
    """Return a JSON value with every string and key clean, and null for numbers that JSON has no word for."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_BITS else _number_text(value)
    if depth >= MAX_DEPTH and isinstance(value, (Mapping, list, tuple)):
        return _TOO_DEEP
    if isinstance(value, Mapping):
        return {clean(str(key)): storable_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [storable_json(item, depth + 1) for item in value]
    return clean(str(value))


def storable_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata that can be stored, without facts that are not of the type that the program reads them as."""
    found = storable_json(metadata)
    return {name: value for name, value in found.items() if name not in _FACTS or _FACTS[name](value)}


def _number_text(value: int) -> str:
    """A number of thousands of digits cannot be printed in decimal."""
    return str(value) if value.bit_length() < 4_096 else hex(value)[:200]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, (dict, list))


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


#: The facts of an event that the program reads, and of which type they are. All other metadata is kept as it came.
_FACTS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("via", "agent_id", "agent_type", "model", "kind", "tool", "refuses", "by", "agent"), _is_text),
    **dict.fromkeys(("failed", "refused", "is_interrupt", "sidechain", "pin", "pin_asked", "task"), _is_scalar),
    "files": _is_list_of_texts,
    "usage": _is_number,
}
