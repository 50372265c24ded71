"""The engines that every test of the store's contract is run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.engines import ENGINES, Open


@pytest.fixture
def opened(engine: str, tmp_path: Path) -> Open:
    return ENGINES[engine](tmp_path)
