"""Projects: their slugs, where they are, and claims to their names."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNFIT = re.compile(r"[^\w.]+")
#: The project of a place whose name holds nothing to call it by.
NAMELESS = "home"
#: Root, label and remote by which the project of a place is found.
PlaceName = tuple[str, str, str]


def slugify(name: str) -> str:
    """Letters, digits, dots, hyphens; never empty."""
    return _UNFIT.sub("-", name.strip()).strip("-.").lower()[:60] or NAMELESS


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """A directory of a project, and the remote that it was last seen with.

    `joined`: the remote made it part of a project that was there before. `slug` is what its own was called until then.
    """

    path: str
    remote: str = ""
    joined: bool = False
    slug: str = ""


@dataclass(frozen=True, slots=True)
class ProjectInfo:
    """A project with its counts, the remotes by which it is known on every machine, and where it is on this one."""

    slug: str
    root: str
    sessions: int
    events: int
    first_ms: int | None
    last_ms: int | None
    remotes: tuple[str, ...] = ()
    places: tuple[ProjectPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A name that a directory claims. `owner` is the other project that has it, none if the claim counts, and `whose`
    says where that one is; `own` is what the directory is called meanwhile, if anything is known of it."""

    owner: str = ""
    whose: str = ""
    own: str = ""
