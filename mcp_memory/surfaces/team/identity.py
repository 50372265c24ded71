"""Who asks: told by the token of a request, and by nothing else.

The guard puts it here before anything else sees the request; whatever reads memory on a team's server takes it from
here. No argument, header or name in a message changes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mcp_memory.domain.people import Viewer
from mcp_memory.errors import NotAllowed

_ASKING: ContextVar[Viewer | None] = ContextVar("mcp_memory_viewer", default=None)


def current() -> Viewer:
    """Who asks. Where no one does, as in a task of the server's own, there is nothing to see."""
    viewer = _ASKING.get()
    if viewer is None:
        raise NotAllowed("No member of the team asks for this.")
    return viewer


@contextmanager
def asking(viewer: Viewer) -> Iterator[None]:
    """All that is done within is done for this member."""
    token = _ASKING.set(viewer)
    try:
        yield
    finally:
        _ASKING.reset(token)
