"""What all tests share."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support import on_engine

pytest_plugins = ["tests.clock"]

# The same examples in every run, so that a fresh clone is green; `make fuzz` tries others. How long an example takes
# says something about the machine, not about the code.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=100)
settings.register_profile("fuzz", deadline=None, database=None, max_examples=1_000, print_blob=True)
settings.load_profile("fixed")

#: What takes longest. It begins first, so that no worker is left alone with it at the end, and what shares a browser or
#: a memory is not torn apart: workers that are done take from the end of what others have left.
LONGEST = (
    "browser",
    "test_trials",
    "test_upgrade",
    "test_truth_set",
    "test_recall_set",
    "test_repair",
    "test_team_sight",
)


#: Where the second engine runs what the first one has shown already.
SECOND_ENGINE_IS_SLOW = {"pipeline", "models"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: not {item.path.stem, item.path.parent.name} & {*LONGEST})


def is_slow(item: pytest.Item) -> bool:
    """Whether a test is slow because of where it runs; others are marked one by one."""
    folders = {*item.path.parts}
    if "browser" in folders:
        return True
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return parameters.get("engine") == "postgres" and bool(folders & SECOND_ENGINE_IS_SLOW)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test on each engine: the memories that `memory` opens lie there."""
    with on_engine(request.param):
        yield request.param
