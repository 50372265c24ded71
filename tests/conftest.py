"""What all tests share."""

import pytest
from hypothesis import settings

# How long an example takes says something about the machine, not about the code. Each run tries other examples.
settings.register_profile("mcp-memory", deadline=None, max_examples=50)
settings.load_profile("mcp-memory")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
