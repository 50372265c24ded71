"""Reading a growing file of JSON lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_memory.clients import CLIENTS
from mcp_memory.clients.lines import digest, growing, milliseconds, parse, rewritten
from mcp_memory.clients.port import TranscriptState, files_below


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines.jsonl"


def test_offset_and_line_stand_after_the_last_complete_line(path: Path) -> None:
    path.write_bytes('{"a": "é"}\n{"b": 2}\n{"c"'.encode())
    state = TranscriptState()
    assert list(growing(path, state)) == ['{"a": "é"}\n'.encode(), b'{"b": 2}\n']
    assert (state.offset, state.line) == (len('{"a": "é"}\n{"b": 2}\n'.encode()), 2)


def test_a_partial_line_is_read_once_it_is_complete(path: Path) -> None:
    path.write_bytes(b'{"a": 1}\n{"b":')
    state = TranscriptState()
    list(growing(path, state))
    path.write_bytes(b'{"a": 1}\n{"b": 2}\n')
    assert list(growing(path, state)) == [b'{"b": 2}\n']


def test_a_last_line_without_newline_is_taken_if_it_is_complete(path: Path) -> None:
    path.write_bytes(b'{"a": 1}')
    state = TranscriptState()
    assert list(growing(path, state)) == [b'{"a": 1}']
    path.write_bytes(b'{"a": 1}\n{"b": 2}\n')
    assert [line for line in growing(path, state) if line.strip()] == [b'{"b": 2}\n']
    assert (state.offset, state.line) == (18, 2)


def test_the_state_moves_past_a_line_only_when_the_next_is_asked_for(path: Path) -> None:
    path.write_bytes(b"{}\n{}\n")
    state = TranscriptState()
    lines = growing(path, state)
    next(lines)
    assert (state.offset, state.line) == (0, 0)
    next(lines)
    assert (state.offset, state.line) == (3, 1)


def test_a_file_that_shrank_is_read_from_its_start(path: Path) -> None:
    path.write_bytes(b"{}\n")
    state = TranscriptState(offset=400, line=20, memory={"tools": {}})
    assert list(growing(path, state)) == [b"{}\n"]
    assert (state.line, state.memory) == (1, {})


def test_a_file_that_was_replaced_is_read_from_its_start(path: Path) -> None:
    path.write_bytes(b'{"longer": "than before"}\n')
    assert len(list(growing(path, TranscriptState(offset=5, line=1)))) == 1


@pytest.mark.parametrize("content", [b"", None])
def test_an_empty_or_missing_file_has_no_lines(path: Path, content: bytes | None) -> None:
    if content is not None:
        path.write_bytes(content)
    assert list(growing(path, TranscriptState())) == []


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        (b'{"a": 1}\r\n', [{"a": 1}]),
        (b"\xef\xbb\xbf{}\n", [{}]),
        (b"\x00\x00\n", []),
        (b"  \n", []),
        (b'{"a": 1}{"b": 2}\n', [{"a": 1}, {"b": 2}]),
        (b'{"a": 1}  {"b": 2}\n', [{"a": 1}, {"b": 2}]),
        (b'{"a": "\xff"}\n', [{"a": "\ufffd"}]),
    ],
)
def test_odd_lines_are_read(raw: bytes, values: list[object]) -> None:
    assert parse(raw) == (values, "")


def test_what_is_good_in_a_glued_line_is_kept() -> None:
    values, problem = parse(b'{"a": 1}{"b"')
    assert values == [{"a": 1}]
    assert problem.startswith("not JSON: ")


@pytest.mark.parametrize("raw", [b"garbage", b'{"a": ', b"[" * 100_000, b"1" * 5000])
def test_what_is_no_json_is_told_with_a_reason(raw: bytes) -> None:
    values, problem = parse(raw)
    assert (values, problem[:8]) == ([], "not JSON")


def test_half_a_surrogate_pair_becomes_storable() -> None:
    values, _ = parse(rb'{"a": ["\ud83d", "\ud83d\ude00"]}')
    assert values[0]["a"][1] == "😀"
    assert values[0]["a"][0] == "\ufffd"


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01.2345678Z", 1234),
        ("1970-01-01t02:00:00+02:00", 0),
        ("1970-01-01 00:00:00z", 0),
        ("1969-12-31T23:59:59Z", -1000),
        ("1970-01-01", None),
        ("1970-01-01T00:00:00", None),
        ("1970-13-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("9999-12-31T23:59:59Z", None),
        ("yesterday", None),
        (1000, None),
        (None, None),
    ],
)
def test_times_are_read_as_rfc_3339_and_nothing_else(timestamp: object, expected: int | None) -> None:
    assert milliseconds(timestamp) == expected


def test_the_digest_of_a_text_does_not_depend_on_its_spacing() -> None:
    assert digest("a  b\n") == digest("a b") != digest("ab")


def test_a_pipe_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    assert list(growing(path, TranscriptState())) == []
    assert list(rewritten(path, TranscriptState())) == []


def test_files_come_once_and_in_order_however_they_are_named(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "a/subagents/agent-1.jsonl", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = files_below([tmp_path / "notes.txt", tmp_path, tmp_path / "a.jsonl", tmp_path / "missing"])
    assert [path.relative_to(tmp_path).as_posix() for path in found] == [
        "notes.txt",
        "a.jsonl",
        "a/subagents/agent-1.jsonl",
        "b.jsonl",
    ]


@pytest.mark.skipif(os.name != "posix", reason="named pipes of POSIX")
def test_a_pipe_in_a_directory_is_no_transcript(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "a.jsonl").write_text("{}")
    assert list(files_below([tmp_path])) == [tmp_path / "a.jsonl"]


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini", "cursor", "jsonl"])
def test_a_file_that_is_named_is_read_once(tmp_path: Path, client: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{}")
    assert list(CLIENTS[client].transcripts([path])) == [path]
