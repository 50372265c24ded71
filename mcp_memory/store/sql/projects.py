"""The projects that events are of: found by the names of a place, joined by a repository's remote, kept apart again.

A directory may claim a name, in a file that anyone can have written. A name that no one has becomes its own; one that
is another project's counts only where the user has agreed, which an alias of the claim and the directory says. The
remote of a repository is written by git on this machine, and makes all its clones one project. Where the user has split
one off, an alias of the remote and the directory says so, which comes before the remote alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from mcp_memory.capture.project import places
from mcp_memory.capture.redaction import redact
from mcp_memory.domain.events import NOTES_CLIENT
from mcp_memory.domain.projects import NAMELESS, Claim, ProjectInfo, ProjectPlace, slugify
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.store.sql.database import Row, Transaction
from mcp_memory.store.sql.sharing import note_merge

_REMOTE = "remote:"
#: Names of a place that are no directories.
_NAMES = (_REMOTE, "claim:", "at:")
_BY_NAME = "(SELECT project FROM project_alias WHERE root = ?), (SELECT id FROM project WHERE root = ?)"
#: By the places under which it may be known, the best of them first; a name that the user gave also means the project
#: that already has it as its slug. A directory that is known with another remote holds another repository now.
_OTHERWISE = "EXISTS (SELECT 1 FROM place WHERE place.root = ? AND place.remote NOT IN ('', ?))"
FIND = f"""
    SELECT id, slug, root FROM project WHERE id = coalesce(
        {_BY_NAME}, {_BY_NAME}, {_BY_NAME},
        CASE WHEN {_OTHERWISE} THEN NULL ELSE coalesce({_BY_NAME}) END,
        (SELECT id FROM project WHERE slug = ?))
"""
_ALIAS = (
    "INSERT INTO project_alias (root, project) VALUES (?, ?) "
    "ON CONFLICT (root) DO UPDATE SET project = excluded.project"
)
_NOTE = (
    "INSERT INTO place (root, remote, joined, slug) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (root) DO UPDATE SET remote = excluded.remote, joined = excluded.joined, slug = excluded.slug"
)
_TOUCH = "INSERT INTO dirty_brief (project) VALUES (?) ON CONFLICT DO NOTHING"
_CUT_WHOLE = (
    "INSERT INTO dirty_session (session, from_ms) SELECT session, min(timestamp_ms) FROM event WHERE session = ? "
    "GROUP BY session ON CONFLICT (session) DO UPDATE SET from_ms = excluded.from_ms, seq = dirty_session.seq + 1"
)
_ALIASES = (
    "SELECT a.project, a.root, p.remote, p.joined, p.slug FROM project_alias a LEFT JOIN place p ON p.root = a.root "
    "UNION SELECT o.id, o.root, p.remote, p.joined, p.slug FROM project o LEFT JOIN place p ON p.root = o.root"
)
PROJECTS = f"""
    SELECT p.slug, p.root, count(DISTINCT CASE WHEN s.client <> '{NOTES_CLIENT}' THEN s.id END), count(e.id),
           min(e.timestamp_ms), max(e.timestamp_ms), p.id
    FROM project p LEFT JOIN session s ON s.project = p.id LEFT JOIN event e ON e.session = s.id
    GROUP BY p.id, p.slug, p.root ORDER BY max(e.timestamp_ms) DESC NULLS LAST
"""
KNOWN_AS = f"SELECT x.* FROM ({_ALIASES}) x ORDER BY 1, 2"
REMOTES = (
    "SELECT p.slug, min(a.root) FROM project_alias a JOIN project p ON p.id = a.project "
    "WHERE a.root LIKE 'remote:%' GROUP BY p.slug"
)


def sought(root: str, label: str, remote: str = "") -> tuple[str, ...]:
    """What FIND is asked for: by a root, what is claimed there and its remote, or by a label that the user gave."""
    *before, last = places(root, label, remote)
    first = [*before, *([before[-1] if before else last] * 3)][:3]
    names = [name for place in first for name in (place, place)]
    return (*names, root if remote else "", remote, last, last, slugify(label) if label and not root else "")


def remote_of_alias(name: str) -> str:
    return name.removeprefix(_REMOTE)


def infos(rows: Iterable[Row], known_as: Iterable[Row]) -> list[ProjectInfo]:
    """Projects from the rows of PROJECTS and KNOWN_AS."""
    told: dict[int, list[Row]] = {}
    for project, *name in known_as:
        told.setdefault(project, []).append(tuple(name))
    found = []
    for slug, root, sessions, events, first_ms, last_ms, number in rows:
        names = told.get(number, [])
        remotes = tuple(remote_of_alias(name) for name, *_ in names if name.startswith(_REMOTE))
        at = tuple(
            ProjectPlace(name, remote or "", bool(joined), slug or "")
            for name, remote, joined, slug in names
            if not name.startswith((*_NAMES, "label:"))
        )
        found.append(ProjectInfo(slug, root, sessions, events, first_ms, last_ms, remotes, at))
    return found


def project_of(tx: Transaction, root: str, label: str, remote: str = "") -> int:
    """The project's row for a root, with what is claimed there and its remote, or for a label that the user gave.

    It is made on sight. What the remote says of the root is kept, and joins the projects of both.
    """
    root, label, remote = redact(root), redact(label), redact(remote)
    rows = tx.fetch(FIND, sought(root, label, remote))
    known = not remote or (rows and _leads(tx, root or _REMOTE + remote) == rows[0][0])
    if root and remote:
        known = known and _last_remote(tx, root) == remote
    # As it was when this place was last seen; and whoever takes the project away meanwhile is waited for.
    if rows and known and tx.fetch(f"SELECT id FROM project WHERE id = ? {tx.held}", (rows[0][0],)):
        return int(rows[0][0])
    tx.lock(["project"])
    if not root:
        return _named(tx, label, remote)
    for place in places(root, label, remote)[: -2 if remote else -1]:  # where the user was asked, or has decided
        if (project := _leads(tx, place)) is not None:
            return project
    here = _leads(tx, root)
    if remote:
        return _by_remote(tx, root, label, remote, here)
    return here if here is not None else _make(tx, root, label, "")


def _by_remote(tx: Transaction, root: str, label: str, remote: str, here: int | None) -> int:
    """The project of a root that has a remote, of which the store knows what is `here` by the root alone."""
    shared = _REMOTE + remote
    there, before = _leads(tx, shared), _last_remote(tx, root)
    if there is None:
        if here is not None and before not in ("", remote):
            _vacate(tx, here, root, before)
            here = None
        project = here if here is not None else _make(tx, root, label, remote)
        tx.run(_ALIAS, (shared, project))
        tx.run(_NOTE, (root, remote, 0, ""))
        tx.run(_TOUCH, (project,))
        return project
    if here == there:
        if before != remote:
            tx.run(_NOTE, (root, remote, 0, ""))
        return there
    if here is not None and not before:
        if _remotes(tx, here):  # the user has joined them by hand, and not with that one
            tx.run(_ALIAS, (places(root, "", remote)[0], here))
            tx.run(_NOTE, (root, remote, 0, ""))
            return here
        _join(tx, here, there, root, remote)
        return there
    if here is not None:
        _vacate(tx, here, root, before)
    tx.run(_ALIAS, (root, there))
    tx.run(_NOTE, (root, remote, 1, ""))
    tx.run(_TOUCH, (there,))
    return there


def notice(tx: Transaction, project: int, root: str, label: str, remote: str) -> None:
    """A session of a project goes on at a root whose remote is seen for the first time."""
    root, remote = redact(root), redact(remote)
    if root and remote and not _last_remote(tx, root) and _leads(tx, root) == project:
        project_of(tx, root, label, remote)


def place_of(tx: Transaction, project: int, root: str) -> str:
    """What is kept with a session of where it took place: nothing if that is the root of its project."""
    root = redact(root)
    return "" if tx.fetch("SELECT 1 FROM project WHERE id = ? AND root = ?", (project, root)) else root


def named_project(tx: Transaction, label: str, remote: str) -> int | None:
    """The project of a name, if there is one.

    An export tells the remote, too: the same name of another repository is not the same.
    """
    label, remote = redact(label), redact(remote)
    if remote and (project := _leads(tx, _REMOTE + remote)) is not None:
        return project
    rows = tx.fetch(FIND, sought("", label))
    return int(rows[0][0]) if rows and not (remote and _remotes(tx, rows[0][0])) else None


def _named(tx: Transaction, label: str, remote: str) -> int:
    if (found := named_project(tx, label, remote)) is not None:
        return found
    project = _make(tx, "", label, remote)
    if remote:
        tx.run(_ALIAS, (_REMOTE + remote, project))
    return project


def _make(tx: Transaction, root: str, label: str, remote: str) -> int:
    # A name that someone else has is not given to whoever claims it, not even with something added to it.
    free = label and not tx.fetch(FIND, sought("", label))
    name = label if free or not root else re.split(r"[\\/]", (remote or root).rstrip("\\/"))[-1]
    place = root or places("", label, remote)[0]
    return _add(tx, slugify(name), place, _REMOTE + remote if remote else place)


def _add(tx: Transaction, slug: str, root: str, unique: str) -> int:
    """A new project; where another one has its slug, a part is added that is the same on every machine."""
    if tx.fetch("SELECT 1 FROM project WHERE slug = ?", (slug,)):
        slug = f"{slug}-{hashlib.blake2b(unique.encode('utf-8', 'replace'), digest_size=3).hexdigest()}"
    if tx.fetch("SELECT 1 FROM project WHERE slug = ?", (slug,)):
        slug = f"{slug}-{hashlib.blake2b(root.encode('utf-8', 'replace'), digest_size=3).hexdigest()}"
    [project] = tx.new_ids("project")
    tx.run("INSERT INTO project (id, slug, root) VALUES (?, ?, ?)", (project, slug, root))
    return project


def _leads(tx: Transaction, place: str) -> int | None:
    """To which project one name of a place leads."""
    rows = tx.fetch("SELECT project FROM project_alias WHERE root = ?", (place,))
    rows = rows or tx.fetch("SELECT id FROM project WHERE root = ?", (place,))
    return int(rows[0][0]) if rows else None


def _last_remote(tx: Transaction, root: str) -> str:
    return str(next((remote for (remote,) in tx.fetch("SELECT remote FROM place WHERE root = ?", (root,))), ""))


def _remotes(tx: Transaction, project: int) -> list[str]:
    rows = tx.fetch("SELECT root FROM project_alias WHERE project = ? AND root LIKE 'remote:%'", (project,))
    return [remote_of_alias(name) for (name,) in rows]


def _vacate(tx: Transaction, project: int, root: str, remote: str) -> None:
    """Another repository is at this root now: the project is known by its remote, and no longer by the root."""
    tx.run("DELETE FROM project_alias WHERE root = ? AND project = ?", (root, project))
    if tx.fetch("SELECT 1 FROM project WHERE id = ? AND root = ?", (project, root)):
        name = _REMOTE + remote
        if remote not in _remotes(tx, project):  # it was split off, and shares no remote
            name = f"label:{hashlib.blake2b(root.encode('utf-8', 'replace'), digest_size=6).hexdigest()}"
        tx.run("UPDATE project SET root = ? WHERE id = ?", (name, project))
    tx.run(_TOUCH, (project,))


def _join(tx: Transaction, source: int, target: int, root: str, remote: str) -> None:
    """The remote of a root, seen for the first time, is that of another project: what is here becomes a part of it."""
    ((slug,),) = tx.fetch("SELECT slug FROM project WHERE id = ?", (source,))
    for place, told in _directories(tx, source):
        tx.run(_NOTE, (place, remote if place == root else told or "", 1, slug))
    merge(tx, source, target)


def _directories(tx: Transaction, project: int) -> list[tuple[str, str]]:
    """Where a project is, by directory or given name, and the remote that was last seen there."""
    rows = tx.fetch(f"SELECT x.root, x.remote FROM ({_ALIASES}) x WHERE x.project = ? ORDER BY 1", (project,))
    return [(place, remote) for place, remote in rows if not place.startswith(_NAMES)]


def merge(tx: Transaction, old: int, new: int) -> int:
    """Move all sessions of one project into another; how many."""
    from mcp_memory.store.sql.nodes import remove_nodes

    tx.run("UPDATE project SET slug = slug WHERE id = ?", (old,))  # whoever adds a session to it is waited for
    note_merge(tx, old, new)
    remove_nodes(tx, [node for (node,) in tx.fetch("SELECT id FROM node WHERE project = ?", (old,))])
    sessions = tx.fetch("SELECT id FROM session WHERE project = ?", (old,))
    for (session,) in sessions:
        tx.run("DELETE FROM segment WHERE session = ?", (session,))
        tx.run(_CUT_WHOLE, (session,))
    ((root,),) = tx.fetch("SELECT root FROM project WHERE id = ?", (old,))
    tx.run("UPDATE session SET place = ? WHERE project = ? AND place = ''", (root, old))
    tx.run("UPDATE session SET project = ? WHERE project = ?", (new, old))
    tx.run("UPDATE project_alias SET project = ? WHERE project = ?", (new, old))
    tx.run(_ALIAS, (root, new))
    for table in ("dirty_node", "dirty_brief", "failure"):
        tx.run(f"DELETE FROM {table} WHERE project = ?", (old,))
    tx.run("DELETE FROM project WHERE id = ?", (old,))
    tx.run(_TOUCH, (new,))
    return len(sessions)


def merge_named(tx: Transaction, source: str, target: str) -> int:
    old, new = number_of(tx, source), number_of(tx, target)
    if old == new:
        raise UsageError(f"{source!r} cannot be merged into itself.")
    return merge(tx, old, new)


def split(tx: Transaction, slug: str, roots: Sequence[str]) -> dict[str, str]:
    """Take places out of a project, those that their remote joined to it if none is named: place and its new slug.

    Each gets back the name it had, and the sessions that took place there. Its remote does not join it again.
    """
    project = number_of(tx, slug)
    ((own,),) = tx.fetch("SELECT root FROM project WHERE id = ?", (project,))
    rows = tx.fetch(f"SELECT x.root, x.joined, x.slug FROM ({_ALIASES}) x WHERE x.project = ? ORDER BY 1", (project,))
    there = {root: (joined, former or "") for root, joined, former in rows if not root.startswith(_NAMES)}
    for root in roots:
        if root == own:
            raise UsageError(f"{root} is where {slug} itself is; split the other places from it.")
        if root not in there:
            raise NotFound(f"{slug} has no place {root}; `mcp-memory projects` lists them.")
    chosen = list(dict.fromkeys(roots)) or [root for root, (joined, _) in there.items() if joined and root != own]
    if not chosen:
        raise UsageError(f"Nothing was joined to {slug} by its remote. Name a place to split off: PATH after the slug.")
    groups: dict[str, list[str]] = {}
    for root in sorted(chosen, key=lambda root: (root.startswith("label:"), root)):
        groups.setdefault(there[root][1] or root, []).append(root)
    given: dict[str, str] = {}
    for name, group in groups.items():
        former = name if name != group[0] else slugify(re.split(r"[\\/]", name.rstrip("\\/"))[-1])
        tx.run("DELETE FROM project_alias WHERE root = ?", (group[0],))
        new = _add(tx, former, group[0], group[0])
        for root in group:
            _move(tx, root, project, new, is_root=root == group[0])
        ((called,),) = tx.fetch("SELECT slug FROM project WHERE id = ?", (new,))
        given |= {root: str(called) for root in group}
        tx.run(_TOUCH, (new,))
    tx.run(_TOUCH, (project,))
    return given


def _move(tx: Transaction, root: str, old: int, new: int, *, is_root: bool) -> None:
    """Give a place and the sessions that took place there to another project."""
    from mcp_memory.store.sql.forget import drop_segments

    if not is_root:
        tx.run(_ALIAS, (root, new))
    if remote := _last_remote(tx, root):
        tx.run(_ALIAS, (places(root, "", remote)[0], new))
        tx.run(_NOTE, (root, remote, 0, ""))
    sessions = tx.fetch(
        "SELECT s.id, min(e.timestamp_ms) FROM session s JOIN event e ON e.session = s.id "
        "WHERE s.project = ? AND s.place = ? GROUP BY s.id",
        (old, root),
    )
    drop_segments(tx, [(session, start_ms) for session, start_ms in sessions])
    tx.run(
        "UPDATE session SET project = ?, place = ? WHERE project = ? AND place = ?",
        (new, "" if is_root else root, old, root),
    )


def claim_of(tx: Transaction, root: str, label: str, remote: str = "") -> Claim:
    """Whether a claim counts."""
    here, named = tx.fetch(FIND, sought(root, label, remote)), tx.fetch(FIND, sought("", label))
    if not named or (here and here[0][0] == named[0][0]):
        return Claim()
    (_, owner, place), own = named[0], here[0][1] if here else ""
    known = not place.startswith(("label:", _REMOTE))
    return Claim(owner, f"that of {place}" if known else "a project that has a name alone", own)


def trust(tx: Transaction, root: str, label: str, remote: str) -> Claim:
    root, label, remote = redact(root), redact(label), redact(remote)
    claim = claim_of(tx, root, label, remote)
    if claim.owner:
        project = number_of(tx, claim.owner)
        tx.run(_ALIAS, (places(root, label)[0], project))
        tx.run(_TOUCH, (project,))
    return claim


def rename(tx: Transaction, old: str, new: str) -> str:
    slug = slugify(new)
    if slug == NAMELESS and NAMELESS not in new.lower():
        raise UsageError(f"{new[:60]!r} holds no letter or digit by which a project could be named.")
    project = number_of(tx, old)
    if slug != old and tx.fetch("SELECT 1 FROM project WHERE slug = ?", (slug,)):
        raise UsageError(f"There is a project {slug!r} already; `mcp-memory projects merge {old} {slug}` joins them.")
    tx.run("UPDATE project SET slug = ? WHERE id = ?", (slug, project))
    tx.run(_TOUCH, (project,))
    return slug


def number_of(tx: Transaction, slug: str) -> int:
    rows = tx.fetch("SELECT id FROM project WHERE slug = ?", (slug,))
    if not rows:
        raise NotFound(f"There is no project {slug!r} in memory; `mcp-memory projects` lists them.")
    return int(rows[0][0])
