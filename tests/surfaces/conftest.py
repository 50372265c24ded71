"""A memory with the sample history in it, built once and copied for each test."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from mcp_memory import sample
from mcp_memory.adapters.clients import ADAPTERS
from mcp_memory.app import open_app
from mcp_memory.config import Calendar, Settings
from mcp_memory.pipeline.importing import import_files

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
            await import_files(app.log, [(ADAPTERS["jsonl"], HISTORY)], app.intaker)
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
