"""Where memory lives on this machine. The hook and the program's settings must agree on it."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing costs the hook a quarter of its time, so only type checkers import it
if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = "mcp-memory"


def home_dir(env: Mapping[str, str]) -> str:
    """The data directory: MCP_MEMORY_HOME, or `mcp-memory` in the platform's place for user data."""
    chosen = env.get("MCP_MEMORY_HOME", "").strip()
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    return os.path.join(_user_data_dir(env, sys.platform), _NAME)


def _user_data_dir(env: Mapping[str, str], platform: str) -> str:
    if platform == "win32":
        return env.get("LOCALAPPDATA") or os.path.expanduser(os.path.join("~", "AppData", "Local"))
    if platform == "darwin":
        return os.path.expanduser("~/Library/Application Support")
    chosen = env.get("XDG_DATA_HOME", "")
    # The XDG specification says that relative paths are invalid and must be ignored.
    return chosen if os.path.isabs(chosen) else os.path.expanduser("~/.local/share")


def private_dir(path: str) -> str:
    """Make the directory, and what is missing above it, for its owner alone. One that exists keeps its mode.

    `os.makedirs` gives the mode to the last one only: a data directory made on the way to one in it would be open.
    """
    if not os.path.isdir(path):
        parent = os.path.dirname(path)
        if parent != path:
            private_dir(parent)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:  # by another process, in this moment
            if not os.path.isdir(path):
                raise
    return path
