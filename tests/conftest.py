"""What all tests share."""

import pytest
from hypothesis import settings

# How long an example takes says something about the machine, not about the code. Each run tries other examples.
settings.register_profile("mcp-memory", deadline=None, max_examples=50)
settings.load_profile("mcp-memory")

#: The modules that take longest. They begin first, so that no worker is left alone with one of them at the end.
LONGEST = ("test_trials", "test_upgrade", "test_truth_set", "test_recall_set", "test_repair", "test_large_transcripts")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests, and leave each module of pages to one worker: it has a browser and a server of its own."""
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=lambda item: item.path.stem not in LONGEST)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
