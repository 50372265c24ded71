"""The directory of a session whose transcript begins with lines that have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.clients import CLIENTS
from mcp_memory.clients.port import TranscriptState
from mcp_memory.domain.events import Captured
from tests.clients.conftest import Transcript

TITLE = {"type": "custom-title", "customTitle": "Fence", "sessionId": "s1"}
QUEUED = {"type": "queue-operation", "operation": "enqueue", "sessionId": "s1", "content": "Mend it."}
NOTIFIED = {**QUEUED, "content": "<ci-monitor-event>The check failed.</ci-monitor-event>"}
TIME = {"timestamp": "2026-03-01T09:00:00Z"}


@pytest.mark.parametrize("first", [{**TITLE, **TIME}, {**NOTIFIED, **TIME}])
def test_lines_before_the_first_directory_have_that_one(transcript: Transcript, first: dict[str, Any]) -> None:
    moved = transcript.say("user", "Go on.", cwd="/home/dev/other")
    transcript.write(first, transcript.say("user", "Mend it."), moved, {**TITLE, "customTitle": "Gate"})
    found = transcript.events()
    assert [event.cwd for event in found] == ["/home/dev/project"] * 2 + ["/home/dev/other"] * 2


def test_what_is_read_of_a_growing_file_has_the_directory_read_before(transcript: Transcript) -> None:
    transcript.write(transcript.say("user", "Mend it."))
    assert len(transcript.events()) == 1
    transcript.write({**NOTIFIED, **TIME})
    assert [event.cwd for event in transcript.events()] == ["/home/dev/project"]


def read(path: Path, *lines: dict[str, Any]) -> list[Captured]:
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return [item for item in CLIENTS["claude-code"].read(path, TranscriptState()) if isinstance(item, Captured)]


def test_a_file_without_any_directory_belongs_to_the_one_its_folder_names(tmp_path: Path) -> None:
    (tmp_path / "my-shop.v2").mkdir()
    name = "".join(letter if letter.isalnum() else "-" for letter in str(tmp_path / "my-shop.v2"))
    (event,) = read(tmp_path / "projects" / name / "s1.jsonl", {**NOTIFIED, **TIME})
    assert event.cwd == str(tmp_path / "my-shop.v2")


def test_a_directory_that_is_gone_is_read_from_the_folders_name(tmp_path: Path) -> None:
    (event,) = read(tmp_path / "projects" / "-nowhere-dev-shop" / "s1.jsonl", {**NOTIFIED, **TIME})
    assert event.cwd == "/nowhere/dev/shop"


def test_a_folder_of_the_user_that_is_called_as_that_of_the_client_hides_no_directory(tmp_path: Path) -> None:
    path = tmp_path / "projects" / "backup" / "projects" / "-nowhere-dev-shop" / "s1.jsonl"
    (event,) = read(path, {**NOTIFIED, **TIME})
    assert event.cwd == "/nowhere/dev/shop"


@pytest.mark.parametrize("folder", ["elsewhere/-home-dev-shop", "projects/shop"])
def test_a_file_that_lies_elsewhere_names_no_directory(tmp_path: Path, folder: str) -> None:
    (event,) = read(tmp_path / folder / "s1.jsonl", {**NOTIFIED, **TIME})
    assert event.cwd == ""
