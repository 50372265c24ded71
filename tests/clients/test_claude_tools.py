"""How tool calls read."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_memory.clients.claude_tools import headline, relative, result_text

CWD = "/home/dev/project"


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("Bash", {"command": "make test\necho done", "description": "Test"}, "Bash: make test"),
        ("Bash", {"command": "x" * 400, "description": "Do it all"}, "Bash: Do it all"),
        ("Bash", {"command": "x" * 400}, f"Bash: {'x' * 299}…"),
        ("Edit", {"file_path": f"{CWD}/src/a.py"}, "Edit: src/a.py"),
        ("Write", {"file_path": "/etc/hosts"}, "Write: /etc/hosts"),
        ("NotebookEdit", {"notebook_path": f"{CWD}/n.ipynb"}, "NotebookEdit: n.ipynb"),
        ("Grep", {"pattern": "def\nmain", "path": f"{CWD}/src"}, "Grep: def main in src"),
        ("Grep", {"pattern": "main", "path": CWD}, "Grep: main"),
        ("Glob", {"pattern": "**/*.py"}, "Glob: **/*.py"),
        ("WebFetch", {"url": "https://example.org", "prompt": "?"}, "WebFetch: https://example.org"),
        ("WebSearch", {"query": "fences"}, "WebSearch: fences"),
        ("Task", {"description": "Count", "prompt": "Count the crates"}, "Task: Count"),
        ("mcp__farm__count", {"what": "crates"}, 'farm.count: {"what":"crates"}'),
        ("mcp__farm__list", {}, "farm.list"),
        ("Skill", {"skill": "pdf"}, 'Skill: {"skill":"pdf"}'),
        ("Bash", {"command": 7}, "Bash"),
    ],
)
def test_the_first_line_names_the_call(name: str, given: dict[str, Any], expected: str) -> None:
    assert headline(name, given, CWD) == expected


def test_a_long_input_is_clipped() -> None:
    line = headline("Skill", {"args": "x" * 900}, CWD)
    assert len(line) == len("Skill: ") + 200
    assert line.endswith("…")


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"stdout": "\nout\n", "stderr": " err\n", "interrupted": False}, "out\nerr"),
        ({"stdout": "data:image/png;base64,AAAA", "isImage": True}, "[image]"),
        ({"stdout": "", "stderr": "", "backgroundTaskId": "b1"}, "Command running in background with ID: b1"),
        ({"type": "image", "file": {"base64": "AAAA"}}, "[image]"),
        ({"type": "notebook", "file": {"cells": [{"source": "a"}, {"source": "b"}, 7]}}, "a\n\nb"),
        ({"type": "create", "content": "A line.\n", "structuredPatch": []}, "A line."),
        ({"filenames": ["a.py", "b.py"], "numFiles": 2}, "a.py\nb.py"),
        ({"mode": "content", "filenames": [], "content": "a.py:1:x"}, "a.py:1:x"),
        ({"mode": "content", "filenames": [], "content": ""}, "No matches found"),
        ({"filenames": []}, "No files found"),
        ({"status": "completed", "content": [{"type": "text", "text": "31"}]}, "31"),
        ({"result": "A page.", "code": 200}, "A page."),
        ({"results": [{"content": [{"title": "T", "url": "u"}]}, "So it is."]}, "T u\nSo it is."),
        ({"oldTodos": [], "newTodos": [{"content": "a", "status": "completed"}, {"content": "b"}]}, "[x] a\n[ ] b"),
        ({"questions": [], "answers": {"Which?": "The left."}}, "Question: Which?\nChosen: The left."),
        ({"plan": "# Plan"}, "# Plan"),
        ({"success": True}, '{"success":true}'),
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"resource": {"text": "b"}}], "a\n[image]\nb"),
        ("plain<system-reminder>no</system-reminder>", "plain"),
        (None, ""),
    ],
)  # fmt: skip
def test_a_result_reads_by_its_shape(response: object, expected: str) -> None:
    assert result_text("Any", {}, response) == expected


def test_an_edit_shows_the_lines_that_changed() -> None:
    old, new = "def a():\n    return 1\n\nb = 2", "def a():\n    return 2\n    # two\n\nb = 2"
    expected = "-     return 1\n+     return 2\n+     # two"
    assert result_text("Edit", {}, {"oldString": old, "newString": new, "structuredPatch": []}) == expected
    edits = {"edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "", "new_string": "c"}]}
    assert result_text("MultiEdit", edits, {"structuredPatch": []}) == "- a\n+ b\n+ c"


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    [
        ("/a/b/c", "/a/b", "c"),
        ("/a/b/c", "/a/b/", "c"),
        ("/a/bc", "/a/b", "/a/bc"),
        (r"C:\a\b", r"C:\a", "b"),
        ("/a", "", "/a"),
        ("", "/a", ""),
    ],
)
def test_a_path_below_the_working_directory_is_relative(path: str, cwd: str, expected: str) -> None:
    assert relative(path, cwd) == expected
