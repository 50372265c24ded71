"""The shared SQL as PostgreSQL wants it: what a placeholder is, and the few words that are spelled otherwise."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any

from mcp_memory.store.sql.copies import FIRST_SOURCE

#: A text in quotes, which is left alone, or what stands between two of them.
_PARTS = re.compile(r"'(?:[^']|'')*'|[^']+")
_NUMBERED = re.compile(r"\?(\d+)")
_NAMED = re.compile(r"(?<![:\w]):([a-z_][a-z_0-9]*)")
#: A list of values, or one by itself; and what tells that rows are looked up by them.
_HELD = re.compile(r"\b(NOT )?IN \((?:\?(?:, ?\?)*)\)|\?")
_LOOKED_UP = re.compile(r"= (?:\?|ANY\(\?\))")
#: What stands in brackets, with others in them, so many deep.
_BRACKETS = reduce(lambda inner, _: rf"\((?:[^()]|{inner})*\)", range(5), "(?!)")
_SPELLED = (
    # A few rows for each: as the condition of a join it would be asked of all pairs there are.
    (
        re.compile(rf"CROSS JOIN (\w+) (\w+) ON \2\.id IN ({_BRACKETS})"),
        r"CROSS JOIN LATERAL \3 few JOIN \1 \2 ON \2.id = few.id",
    ),
    # Without statistics PostgreSQL expects next to nothing of a role, and reads and sorts all of a session to find one.
    # Said as a number that is not 0, it is expected soon.
    (
        re.compile(r"\bbefore WHERE role = 'user' LIMIT 1\b"),
        "before WHERE CASE role WHEN 'user' THEN 1 ELSE 0 END <> 0 LIMIT 1",
    ),
    # There are no samples of names of lines, so PostgreSQL expects a list of them to match most events, and reads all.
    # Looked up one after the other, each is found by the index. With the time beside it, the index on times might be
    # taken, and all events of that time be read for each name. What is found
    # is kept before sessions are joined, or all names would be looked up once for each session.
    (
        re.compile(
            rf"FROM event e INDEXED BY event_source (CROSS JOIN .*?) WHERE {re.escape(FIRST_SOURCE)} "
            r"IN \(((?:\?,?)+)\) AND (e\.timestamp_ms BETWEEN \? AND \?)",
            re.DOTALL,
        ),
        r"FROM (WITH found AS MATERIALIZED (SELECT e.* FROM unnest(ARRAY[\2]::text[]) named (line) CROSS JOIN LATERAL "
        rf"(SELECT * FROM event e WHERE {FIRST_SOURCE} = named.line OFFSET 0) e WHERE \3) SELECT * FROM found) e \1 "
        r"WHERE TRUE",
    ),
    # The order of a join is advice to SQLite alone, as are the names of indexes.
    (re.compile(r"CROSS JOIN (\w+ \w+) ON\b"), r"JOIN \1 ON"),
    (re.compile(r" INDEXED BY \w+"), ""),
    (re.compile(r"group_concat\((\w+)\)"), r"string_agg(\1::text, ',')"),
)
#: A placeholder by number; a percent sign of a text is written twice.
_BY_NUMBER = re.compile(r"(?<!%)(?:%%)*%\(p\d+\)s")
#: A truth that SQLite takes from any value.
_PINNED = "json_extract(e.metadata, '$.pin')"
#: The first of an array of names, as the index on it spells it. A cast to jsonb would refuse some texts.
_FIRST_SOURCE_MATCH = r"""substring(e.source_ids, '^\["([^"\\]{1,220})"')"""


@lru_cache(maxsize=2048)
def translated(sql: str) -> str:
    """The statement with psycopg's placeholders: `?` in turn, `?1` and `:name` by name."""
    for pattern, spelled in _SPELLED:
        sql = pattern.sub(spelled, sql)
    sql = sql.replace(_PINNED, f"{_PINNED} = '1'").replace(FIRST_SOURCE, _FIRST_SOURCE_MATCH)
    numbered = max(map(int, _NUMBERED.findall(sql)), default=0)
    count = itertools.count(numbered + 1)

    def placed(part: str) -> str:
        part = part.replace("%", "%%")
        if part[0] == "'":
            return part
        part = _NUMBERED.sub(r"%(p\1)s", _NAMED.sub(r"%(\1)s", part))
        # As with SQLite, what has no number comes after those that have one.
        return re.sub(r"\?", lambda _: f"%(p{next(count)})s", part) if numbered else part.replace("?", "%s")

    return "".join(map(placed, _PARTS.findall(sql)))


@lru_cache(maxsize=2048)
def by_keys(sql: str) -> tuple[str, tuple[int, ...]] | None:
    """A statement that looks rows up by their numbers, with each list as one array; None if it is another one.

    With it comes of how many values each array is made, 0 for a value by itself. Its plan is the same whatever the
    numbers are, so that it need not be made each time, which takes longer than to run it: there is a table to look at
    for every quarter. Of other statements the plan depends on the values, such as how many rows are wanted.
    """
    if not sql.lstrip().startswith("SELECT") or "LIMIT ?" in sql or _NUMBERED.search(sql) or _NAMED.search(sql):
        return None
    sizes: list[int] = []

    def held(found: re.Match[str]) -> str:
        sizes.append(0 if found[0] == "?" else found[0].count("?"))
        return "?" if found[0] == "?" else "<> ALL(?)" if found[1] else "= ANY(?)"

    told = "".join(part if part[0] == "'" else _HELD.sub(held, part) for part in _PARTS.findall(sql))
    return (translated(told), tuple(sizes)) if _LOOKED_UP.search(told) else None


def in_arrays(values: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """The values as the placeholders of `by_keys` take them."""
    left = iter(values)
    return [list(itertools.islice(left, size)) if size else next(left) for size in sizes]


def bound(sql: str, values: Sequence[Any] | Mapping[str, Any]) -> Sequence[Any] | Mapping[str, Any]:
    """The values as the placeholders name them, as PostgreSQL can hold them."""
    if isinstance(values, Mapping):
        return {name: storable(value) for name, value in values.items()}
    held = [storable(value) for value in values]
    is_numbered = "%(p" in sql and _BY_NUMBER.search(sql)
    return {f"p{number}": value for number, value in enumerate(held, 1)} if is_numbered else held


def storable(value: Any) -> Any:
    """PostgreSQL keeps no NUL in a text, and here a truth is a number, as it is with SQLite."""
    if isinstance(value, bool):
        return int(value)
    return value.replace("\0", "") if isinstance(value, str) and "\0" in value else value
