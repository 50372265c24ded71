"""Projects: a root directory or a chosen name, and the short slug that people and ids use for it.

A directory may claim a name, in a file that anyone can have written. A name that no one has becomes its own; one that
is another project's counts only where the user has agreed, which an alias of the claim and the directory says.
"""

from __future__ import annotations

from mcp_memory.capture.project import places
from mcp_memory.capture.redaction import redact
from mcp_memory.domain.projects import NAMELESS, Claim, slugify
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.store.sqlite.database import Database, Transaction
from mcp_memory.store.sqlite.log import FIND, sought
from mcp_memory.store.sqlite.nodes import remove_node


def claim_of(tx: Transaction, root: str, label: str) -> Claim:
    """Whether a claim counts."""
    here, named = tx.fetch(FIND, sought(root, label)), tx.fetch(FIND, sought("", label))
    if not named or (here and here[0][0] == named[0][0]):
        return Claim()
    (_, owner, place), own = named[0], here[0][1] if here else ""
    return Claim(owner, "a project that has a name alone" if place.startswith("label:") else f"that of {place}", own)


class ProjectPart:
    """Renaming, merging and trusting: what the AdminStore port says of projects."""

    _database: Database

    async def trust(self, root: str, label: str) -> Claim:
        return await self._database.write(_trust, root, label)

    async def rename(self, old: str, new: str) -> str:
        slug = slugify(new)
        if slug == NAMELESS and NAMELESS not in new.lower():
            raise UsageError(f"{new[:60]!r} holds no letter or digit by which a project could be named.")
        return await self._database.write(_rename, old, slug)

    async def merge(self, source: str, target: str) -> int:
        return await self._database.write(_merge, source, target)


def _trust(tx: Transaction, root: str, label: str) -> Claim:
    root, label = redact(root), redact(label)
    claim = claim_of(tx, root, label)
    if claim.owner:
        project = _number(tx, claim.owner)
        tx.run("INSERT OR REPLACE INTO project_alias (root, project) VALUES (?, ?)", (places(root, label)[0], project))
        tx.run("INSERT OR IGNORE INTO dirty_brief (project) VALUES (?)", (project,))
    return claim


def _rename(tx: Transaction, old: str, slug: str) -> str:
    project = _number(tx, old)
    if slug != old and tx.fetch("SELECT 1 FROM project WHERE slug = ?", (slug,)):
        raise UsageError(f"There is a project {slug!r} already; `mcp-memory projects merge {old} {slug}` joins them.")
    tx.run("UPDATE project SET slug = ? WHERE id = ?", (slug, project))
    tx.run("INSERT OR IGNORE INTO dirty_brief (project) VALUES (?)", (project,))
    return slug


def _merge(tx: Transaction, source: str, target: str) -> int:
    old, new = _number(tx, source), _number(tx, target)
    if old == new:
        raise UsageError(f"{source!r} cannot be merged into itself.")
    for (node,) in tx.fetch("SELECT id FROM node WHERE project = ?", (old,)):
        remove_node(tx, node)
    sessions = tx.fetch("SELECT id FROM session WHERE project = ?", (old,))
    for (session,) in sessions:
        tx.run("DELETE FROM segment WHERE session = ?", (session,))
        tx.run(
            "INSERT OR REPLACE INTO dirty_session (session, from_ms) "
            "SELECT session, min(timestamp_ms) FROM event WHERE session = ? GROUP BY session",
            (session,),
        )
    tx.run("UPDATE session SET project = ? WHERE project = ?", (new, old))
    tx.run("UPDATE project_alias SET project = ? WHERE project = ?", (new, old))
    tx.run("INSERT INTO project_alias (root, project) SELECT root, ? FROM project WHERE id = ?", (new, old))
    for table in ("dirty_node", "dirty_brief"):
        tx.run(f"DELETE FROM {table} WHERE project = ?", (old,))
    tx.run("DELETE FROM project WHERE id = ?", (old,))
    tx.run("INSERT OR IGNORE INTO dirty_brief (project) VALUES (?)", (new,))
    return len(sessions)


def _number(tx: Transaction, slug: str) -> int:
    rows = tx.fetch("SELECT id FROM project WHERE slug = ?", (slug,))
    if not rows:
        raise NotFound(f"There is no project {slug!r} in memory; `mcp-memory projects` lists them.")
    return int(rows[0][0])
