"""Memories to test with: the sample history, built once and copied for each test, and those of a user's shell."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from mcp_memory import sample
from mcp_memory.app import open_app
from mcp_memory.clients import CLIENTS
from mcp_memory.config import Calendar, Settings
from mcp_memory.pipeline.importing import import_files
from tests.support import conversation
from tests.surfaces.shell import Shell

HISTORY = Path(sample.__file__).with_name("history.jsonl")
#: The day after the sample history's last, so that phrases such as "last week" reach it.
NOW = round(datetime(2026, 10, 31, 12, tzinfo=UTC).timestamp() * 1000)


def settings_at(home: Path) -> Settings:
    return Settings(home=home, calendar=Calendar("UTC"), project="tidepool-api", now_ms=NOW)


@pytest.fixture(scope="session")
def sample_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("sample") / "home"

    async def build() -> None:
        async with open_app(settings_at(home)) as app:
            await import_files(app.store, app.inbox, [(CLIENTS["jsonl"], HISTORY)], app.intaker)
            await app.pipeline.until_idle()
            await app.pipeline.lease.release()

    anyio.run(build)
    return home


@pytest.fixture
def settings(sample_home: Path, tmp_path: Path) -> Settings:
    """A memory of one's own that holds the sample history."""
    return settings_at(shutil.copytree(sample_home, tmp_path / "home"))


@pytest.fixture
def blank(tmp_path: Path) -> Settings:
    """A memory that does not exist yet."""
    return settings_at(tmp_path / "blank")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A memory with two small projects; the tests that share it only read."""
    shell = Shell(tmp_path_factory.mktemp("cli"))
    path = shell.cwd / "history.jsonl"
    lines = [*conversation("2026-03-02"), *conversation("2026-03-04", session="s2", project="beta")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = shell.json("import", str(path), "--client", "jsonl")
    assert (done["files"], done["events_new"], done["skipped"]) == (1, 16, [])
    assert shell.json("process", "--until-idle")["idle"] is True
    return shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)
