"""Values are made storable once, and then stay as they are."""

from __future__ import annotations

import json

import anyio
import pytest

from mcp_memory.domain.halving import halve_rejected
from mcp_memory.domain.storable import MAX_NAME_CHARS, bounded_name, storable_json, storable_metadata
from mcp_memory.errors import NotFound, alone


def test_a_name_is_bounded_once_and_told_from_others() -> None:
    long = "x" * 20_000
    name = bounded_name(long)
    assert len(name) == 217
    assert name[:MAX_NAME_CHARS] == long[:MAX_NAME_CHARS]
    assert bounded_name(name) == name
    assert bounded_name(long + "y") != name
    assert bounded_name("s1") == "s1"
    assert bounded_name("s\0" + "1") == "s\ufffd1"


def test_strings_and_keys_are_cleaned_however_deep_they_are() -> None:
    value = {"a\0": ["\ud83d", {"\udc00": ("\0", 1, None, True)}], "pair": "\ud83d\ude00"}
    cleaned = storable_json(value)
    assert cleaned == {"a\ufffd": ["\ufffd", {"\ufffd": ["\ufffd", 1, None, True]}], "pair": "\U0001f600"}
    assert storable_json(cleaned) == cleaned
    json.dumps(cleaned, ensure_ascii=False).encode()


def test_what_is_nested_without_end_and_numbers_that_no_database_holds_are_replaced() -> None:
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    cleaned = storable_json(
        {"deep": deep, "nan": float("nan"), "inf": float("-inf"), "big": 10**30, "huge": 1 << 99_999}
    )
    assert "nested too deep" in json.dumps(cleaned["deep"])
    assert (cleaned["nan"], cleaned["inf"], cleaned["big"]) == (None, None, str(10**30))
    assert len(cleaned["huge"]) == 200


def test_facts_of_another_type_than_they_are_read_as_are_left_out() -> None:
    odd = {"via": {"a": 1}, "usage": "many", "files": ["a", 1], "failed": [], "agent_id": 7, "mine": {"via": {}}}
    assert storable_metadata(odd) == {"mine": {"via": {}}}
    usual = {"via": "hook", "usage": 12, "files": ["a"], "failed": True, "agent_id": "x", "task": 3, "mine": [1]}
    assert storable_metadata(usual) == usual


async def _halved(items: list[int], bad: set[int]) -> tuple[list[int], list[int], int]:
    taken, calls = list[int](), [0]

    async def take(part: object) -> None:
        calls[0] += 1
        assert isinstance(part, list)
        if bad & {*part}:
            raise NotFound(str(part))
        taken.extend(part)

    rejected = await halve_rejected(items, take, NotFound)
    return taken, [item for item, _ in rejected], calls[0]


@pytest.mark.parametrize("bad", [set[int](), {0}, {999}, {3, 500, 501}])
def test_the_few_items_that_are_rejected_are_found_by_halving(bad: set[int]) -> None:
    taken, rejected, calls = anyio.run(_halved, list(range(1_000)), bad)
    assert taken == [item for item in range(1_000) if item not in bad]
    assert rejected == sorted(bad)
    assert calls <= 1 + 22 * len(bad)


def test_an_error_that_is_no_rejection_ends_the_halving() -> None:
    async def take(part: object) -> None:
        raise ZeroDivisionError

    async def halve() -> None:
        await halve_rejected([1, 2], take, NotFound)

    with pytest.raises(ZeroDivisionError):
        anyio.run(halve)


@pytest.mark.parametrize("error", [ZeroDivisionError("once"), NotFound("Not there.")])
def test_a_single_error_leaves_a_task_group_as_it_was_raised(error: Exception) -> None:
    with pytest.raises(type(error)) as found, alone():
        raise ExceptionGroup("tasks", [ExceptionGroup("more", [error])])
    assert found.value is error
