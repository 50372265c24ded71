"""Which project a directory belongs to, so that clones, worktrees and subdirectories share one memory.

A repository comes from anywhere, so what it says of itself is a claim. Whether that counts is decided where events are
stored: a name that is another project's does only once the user has agreed.
"""

from __future__ import annotations

import os
from collections import namedtuple

from mcp_memory.capture.redaction import redact
from mcp_memory.capture.remote import remote_of
from mcp_memory.capture.settings import is_off, lazy, read_flat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NamedTuple

    class Project(NamedTuple):
        """`root` is the directory; with it, `label` is the name that a file in there claims. Without it, `label` is
        the name that the user gave in the environment, which is all that counts then.

        A project that is not `enabled` is not captured. `remote` is what the repository is known by on all machines.
        """

        root: str
        label: str
        enabled: bool
        remote: str
else:
    Project = namedtuple("Project", "root label enabled remote")

_FILE = ".mcp-memory.toml"
#: How directories are named in which this program asks an agent for a summary: what is said there is no one's history.
OWN_QUESTIONS = "mcp-memory-question-"
#: No system takes a longer path; looking for what is above each of its parts would take for ever.
_LONGEST = 4_096
_WORKTREE = lazy(r"[\\/](?:\.claude[\\/]worktrees|\.worktrees)[\\/]")


def detect(cwd: str, env: Mapping[str, str]) -> Project:
    """The project of a directory, which may be one of another machine that only old history knows."""
    cwd = cwd if len(cwd) <= _LONGEST else ""
    if os.path.isdir(cwd):
        path = os.path.realpath(cwd)
    else:  # only its text tells
        worktree = _WORKTREE().search(cwd)
        path = cwd[: worktree.start()] if worktree else cwd
        shorter = path.rstrip("\\/")
        path = path if not shorter or shorter.endswith(":") else shorter
    # Without git, it is the nearest directory above that holds our own file.
    marked = (place for place in _parents(path) if os.path.isfile(os.path.join(place, _FILE)))
    repository, config, own = _repository(path)
    root = repository or next(marked, "") or path
    told = read_flat(os.path.join(root, _FILE)) if root else {}
    enabled = not is_off(told.get("enabled", "")) and OWN_QUESTIONS not in path
    given = env.get("MCP_MEMORY_PROJECT", "").strip()
    if given:
        return Project("", redact(given), enabled, "")
    remote = redact(remote_of(config, own)) if config and enabled else ""
    return Project(redact(root), redact(told.get("project", "").strip()), enabled, remote)


def places(root: str, label: str, remote: str = "") -> list[str]:
    """Under which names the store knows this project, the best of them first.

    A claim that counts comes before all others, then a clone that the user keeps apart, the remote, and the root.
    """
    if label and not root:
        return ["remote:" + remote, "label:" + label] if remote else ["label:" + label]
    # The length tells where the label ends, whatever stands in it.
    claimed = ["claim:%d:%s:%s" % (len(label), label, root)] if label else []
    shared = ["at:%d:%s:%s" % (len(remote), remote, root), "remote:" + remote] if remote else []
    return [*claimed, *shared, root]


def _parents(path: str) -> list[str]:
    found = []
    while os.path.isabs(path):
        found.append(path)
        above = os.path.dirname(path)
        if above == path:
            break
        path = above
    return found


def _repository(path: str) -> tuple[str, str, str]:
    """The root of the repository that a path is in, its config, and the worktree that this must be for, if any."""
    for directory in _parents(path):
        git = os.path.join(directory, ".git")
        if os.path.isfile(os.path.join(git, "HEAD")):
            return directory, os.path.join(git, "config"), ""
        if os.path.isfile(git):
            return _linked(directory, git)
    return "", "", ""


def _linked(directory: str, git: str) -> tuple[str, str, str]:
    """A `.git` file leads to a worktree's own directory, whose `commondir` leads to the repository.

    A submodule has no `commondir`: it is a project of its own. So is a directory that no repository has for a worktree:
    anyone can write a file that leads to someone else's.
    """
    own = _first_line(git)
    if not own.startswith("gitdir:"):
        return directory, "", ""
    own = os.path.join(directory, own[len("gitdir:") :].strip())
    common = _first_line(os.path.join(own, "commondir"))
    if not common:
        return directory, os.path.join(os.path.realpath(own), "config"), directory
    common = os.path.realpath(os.path.join(own, common))
    known = os.path.dirname(os.path.join(own, _first_line(os.path.join(own, "gitdir"))))
    inside = os.path.dirname(os.path.dirname(os.path.realpath(own))) == common
    if not inside or os.path.realpath(known) != os.path.realpath(directory):
        return directory, "", ""
    root = os.path.dirname(common) if os.path.basename(common) in (".git", ".bare") else common
    return root, os.path.join(common, "config"), ""


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline(4096).strip()
    except (OSError, ValueError):  # ValueError: no path at all, such as one with a NUL
        return ""
