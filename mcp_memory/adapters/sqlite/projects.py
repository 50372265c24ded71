"""Projects: a root directory or a chosen name, and the short slug that people and ids use for it."""

from __future__ import annotations

import hashlib
import re

from mcp_memory.adapters.sqlite.database import Transaction

#: By root; a name that the user gave also means the project that already has it as its slug.
FIND = "SELECT id, slug FROM project WHERE root = ?1 OR slug = ?2 ORDER BY root = ?1 DESC LIMIT 1"
_UNFIT = re.compile(r"[^\w.]+")


async def project_of(tx: Transaction, root: str, label: str) -> int:
    """The project's row for a root, or for a label that the user gave; made on first sight."""
    place = f"label:{label}" if label else root
    slug = slugify(label or re.split(r"[\\/]", root.rstrip("\\/"))[-1])
    rows = await tx.fetch(FIND, (place, slug if label else ""))
    if rows:
        return int(rows[0][0])
    if await tx.fetch("SELECT 1 FROM project WHERE slug = ?", (slug,)):
        slug = f"{slug}-{hashlib.blake2b(place.encode('utf-8', 'replace'), digest_size=3).hexdigest()}"
    project = await tx.next_id("project")
    await tx.run("INSERT INTO project (id, slug, root) VALUES (?, ?, ?)", (project, slug, place))
    return project


def slugify(name: str) -> str:
    """Letters, digits, dots, hyphens; never empty."""
    return _UNFIT.sub("-", name.strip()).strip("-.").lower()[:60] or "home"
