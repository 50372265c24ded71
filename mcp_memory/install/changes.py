"""Planning and making the changes of `install` and `uninstall`. All is planned before the first byte is written."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcp_memory.clients.folders import Folders
from mcp_memory.install import files
from mcp_memory.install.catalog import USER, Client
from mcp_memory.install.jsonc_read import COMMENT, JsonError, load
from mcp_memory.install.launch import Launch
from mcp_memory.install.record import Entry, Record
from mcp_memory.install.wanted import Found, Wanted


@dataclass(frozen=True, slots=True)
class Change:
    """One file's next contents; None means no file. `restored`: back to what it was, byte for byte."""

    path: Path
    before: bytes | None
    after: bytes | None
    entry: Entry | None = None
    restored: bool = False

    @property
    def kind(self) -> str:
        if self.before == self.after:
            return "unchanged"
        if self.restored and self.after is not None:
            return "restored"
        return "created" if self.before is None else "removed" if self.after is None else "changed"

    def diff(self) -> str:
        """What changes, as a unified diff."""
        old, new = (
            (data or b"").decode("utf-8", "replace").splitlines(keepends=True) for data in (self.before, self.after)
        )
        source, target = (str(self.path) if data is not None else "/dev/null" for data in (self.before, self.after))
        lines = difflib.unified_diff(old, new, source, target)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def plan_install(
    client: Client, scope: str, root: Folders, launch: Launch, record: Record, now_ms: int
) -> list[Change]:
    """What to write into each of the client's files of this scope."""
    changes = []
    for path, wanted in client.wanted(scope, root, launch).items():
        before = files.read(path)
        after = _registered(path, before, wanted)
        template = Entry(client.name, scope, str(root.root), str(path), "", "", installed_ms=now_ms)
        changes.append(Change(path, before, after, _entry(template, path, before, after, record)))
    return changes


def _registered(path: Path, before: bytes | None, wanted: Wanted) -> bytes:
    with files.told(path):
        text, mark = files.decode(before or b"")
        new: str = files.editor(path).register(text, wanted)
    return mark + new.encode("utf-8")


def _entry(new: Entry, path: Path, before: bytes | None, after: bytes, record: Record) -> Entry | None:
    """What to remember of the file, so that it can be put back; None if nothing new is to be remembered."""
    known = record.of(path)
    if not found(path, before):
        folders = tuple(map(str, files.missing_folders(path)))
        kept = known.folders if known else ()
        return replace(new, before=files.digest(before), after=files.digest(after), folders=folders or kept)
    if known is None:  # entries made by hand or by another installation: there is no state without them to go back to
        return replace(new, before=files.digest(before), after="", clean=False)
    if before == after:
        return None
    untouched = known.after == files.digest(before)
    return replace(known, after=files.digest(after) if untouched else "")


def found(path: Path, data: bytes | None) -> Found:
    """Our entries in the file."""
    if data is None:
        return Found()
    with files.told(path):
        result: Found = files.editor(path).find(files.decode(data)[0])
    return result


def install(changes: Sequence[Change], record: Record) -> None:
    """Remember first, then write: whatever happens in between, `uninstall` knows what to do."""
    for change in changes:
        first = change.entry is not None and change.entry.before == files.digest(change.before)
        if first and change.before is not None:
            record.keep(change.before)
    record.put([change.entry for change in changes if change.entry])
    _write(changes)


def plan_uninstall(client: Client, roots: Iterable[tuple[str, Folders]], record: Record) -> list[Change]:
    """How to undo every recorded installation, and what else of ours stands in these scopes' files."""
    known = {Path(entry.path): entry for entry in record.entries(client.name)}
    others = [path for scope, root in roots for path in client.files(scope, root) if path not in known]
    changes = [_undo(path, entry, record) for path, entry in known.items()]
    return changes + [
        change for path in dict.fromkeys(others) if (change := _strip(path, files.read(path), None, None))
    ]


def _undo(path: Path, entry: Entry, record: Record) -> Change:
    now = files.read(path)
    if now is None or (entry.clean and files.digest(now) == entry.before):
        return Change(path, now, now, entry, restored=True)
    original = record.backup(entry.before)
    if entry.after and files.digest(now) == entry.after and (original is not None or not entry.before):
        return Change(path, now, original, entry, restored=True)
    return _strip(path, now, entry, _value(path, original)) or Change(path, now, now, entry)


def _strip(path: Path, now: bytes | None, entry: Entry | None, original: Any) -> Change | None:
    """Take exactly our entries out of a file that others have edited; None if there are none."""
    if now is None or not found(path, now):
        return None
    with files.told(path):
        text, mark = files.decode(now)
        rest: str = files.editor(path).withdraw(text, original)
    ours_alone = entry is not None and not entry.before and _is_bare(path, rest)
    return Change(path, now, None if ours_alone else mark + rest.encode("utf-8"), entry)


def _value(path: Path, data: bytes | None) -> Any:
    """The JSON document as it was, to tell which empty objects were the user's."""
    try:
        return load(files.decode(data)[0]) if data is not None and path.suffix != ".toml" else None
    except (JsonError, UnicodeDecodeError):
        return None


def _is_bare(path: Path, text: str) -> bool:
    """Whether nothing is left but what we ourselves put around our entries."""
    if path.suffix == ".toml" or not text.strip():
        return not text.strip()
    return not COMMENT.search(text) and load(text) in ({}, {"version": 1})


def uninstall(changes: Sequence[Change], record: Record) -> None:
    """Write first, then forget: an interrupted run can be run again."""
    _write(changes)
    for change in changes:
        for folder in map(Path, change.entry.folders if change.entry else ()):
            if change.after is None:
                with suppress(OSError):  # others keep something there, or it has gone already
                    folder.rmdir()
    record.drop([change.path for change in changes])
    for change in changes:
        if change.entry and change.restored:
            record.discard(change.entry.before)


def _write(changes: Sequence[Change]) -> None:
    for change in changes:
        if change.before != change.after:
            private = change.entry is None or change.entry.scope == USER
            files.replace(change.path, change.before, change.after, private=private)
