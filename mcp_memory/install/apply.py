"""`install` and `uninstall` on the disk: all is planned before the first byte is written, and can be undone.

What was installed where is kept in the data directory, together with the files as they were before.
"""

from __future__ import annotations

import codecs
import difflib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from mcp_memory.capture.settings import private_dir
from mcp_memory.clients.port import USER, Client, Folders
from mcp_memory.errors import MemoryFault, StoreFull
from mcp_memory.install import json_settings
from mcp_memory.install.catalog import EditError, FoundEntries, Launch, wanted_entries

FILE = "registrations.json"
_BACKUPS = "backups"


@dataclass(frozen=True, slots=True)
class Entry:
    """One settings file that holds entries of ours.

    `before` is the digest of the file as it was, empty if there was none; `after` of what we wrote, empty if it has
    been edited by others since and so cannot simply be put back. It was `clean` if it held nothing of ours before.
    `folders` are those we made, innermost first.
    """

    client: str
    scope: str
    root: str
    path: str
    before: str
    after: str
    clean: bool = True
    folders: tuple[str, ...] = ()
    installed_ms: int = 0


class InstallRecord:
    """The list of entries with its backups. Every change is written at once."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._file = home / FILE
        self._entries: list[Entry] = []
        try:
            document: Any = json.loads(self._file.read_bytes())
            self._entries = [replace(Entry(**item), folders=tuple(item["folders"])) for item in document["files"]]
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise MemoryFault(
                f"{self._file} cannot be read ({type(error).__name__}). Move it away and run the command again: our "
                "entries are then found by what they look like."
            ) from error

    def entries(self, client: str | None = None) -> list[Entry]:
        return [entry for entry in self._entries if client in (None, entry.client)]

    def of(self, path: Path) -> Entry | None:
        return next((entry for entry in self._entries if entry.path == str(path)), None)

    def change(self, paths: Iterable[Path], new: Sequence[Entry] = ()) -> None:
        """Remember these entries, in place of what was known of these files."""
        gone = {str(path) for path in paths} | {entry.path for entry in new}
        self._entries = [*(entry for entry in self._entries if entry.path not in gone), *new]
        if not self._entries:
            self._file.unlink(missing_ok=True)
            return
        document = {"version": 1, "files": [asdict(entry) for entry in self._entries]}
        write_private(self._file, json.dumps(document, indent=1).encode())

    def keep(self, data: bytes) -> None:
        """Store a file's contents, which may hold keys: readable by its owner only."""
        write_private(self._home / _BACKUPS / digest(data), data)

    def backup(self, before: str) -> bytes | None:
        """The contents of this digest; None if they were never kept or are no longer what they were."""
        try:
            data = (self._home / _BACKUPS / before).read_bytes() if before else None
        except OSError:
            return None
        return data if digest(data) == before else None

    def discard(self, before: str) -> None:
        """Forget contents that are back in their place and needed by no other entry."""
        folder = self._home / _BACKUPS
        if before and all(entry.before != before for entry in self._entries):
            (folder / before).unlink(missing_ok=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def write_private(path: Path, data: bytes) -> None:
    """Store a file in a directory and with a mode that keep others out."""
    try:
        private_dir(str(path.parent))
        _replace(path, data, 0o600)
    except OSError as error:
        raise StoreFull(
            f"{path} cannot be written: {error.strerror}. No settings file was changed. Free some space, correct the "
            "permissions, or set MCP_MEMORY_HOME to another directory."
        ) from error


@dataclass(frozen=True, slots=True)
class FileChange:
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
    client: Client, scope: str, root: Folders, launch: Launch, record: InstallRecord, now_ms: int
) -> list[FileChange]:
    """What to write into each of the client's files of this scope, and what to remember to put it back."""
    changes = []
    for path, wanted in wanted_entries(client, scope, root, launch).items():
        before, known = read(path), record.of(path)
        with _explained(path):
            text, mark = decode(before or b"")
            after = mark + str(_editor(path).register(text, wanted)).encode("utf-8")
        entry: Entry | None = None
        has_ours = bool(found(path, before))
        if known is None or not has_ours:
            folders = tuple(str(folder) for folder in path.parents if not folder.exists())
            entry = Entry(
                client=client.name,
                scope=scope,
                root=str(root.root),
                path=str(path),
                before=digest(before),
                # Of entries made by hand or by another installation there is no state without them to go back to.
                after="" if has_ours else digest(after),
                clean=not has_ours,
                folders=folders or (known.folders if known else ()),
                installed_ms=now_ms,
            )
        elif before != after:
            entry = replace(known, after=digest(after) if known.after == digest(before) else "")
        changes.append(FileChange(path, before, after, entry))
    return changes


def install(changes: Sequence[FileChange], record: InstallRecord) -> None:
    """Remember first, then write: whatever happens in between, `uninstall` knows what to do."""
    for change in changes:
        first = change.entry is not None and change.entry.before == digest(change.before)
        if first and change.before is not None:
            record.keep(change.before)
    record.change((), [change.entry for change in changes if change.entry])
    _write(changes)


def plan_uninstall(client: Client, roots: Iterable[tuple[str, Folders]], record: InstallRecord) -> list[FileChange]:
    """How to undo every recorded installation, and what else of ours stands in these scopes' files."""
    known = {Path(entry.path): entry for entry in record.entries(client.name)}
    others = [path for scope, root in roots for path in client.settings_files(scope, root) if path not in known]
    changes = [_undo(path, entry, record) for path, entry in known.items()]
    return changes + [change for path in dict.fromkeys(others) if (change := _strip(path, read(path), None, None))]


def _undo(path: Path, entry: Entry, record: InstallRecord) -> FileChange:
    now = read(path)
    if now is None or (entry.clean and digest(now) == entry.before):
        return FileChange(path, now, now, entry, restored=True)
    original = record.backup(entry.before)
    if entry.after and digest(now) == entry.after and (original is not None or not entry.before):
        return FileChange(path, now, original, entry, restored=True)
    return _strip(path, now, entry, original) or FileChange(path, now, now, entry)


def _strip(path: Path, now: bytes | None, entry: Entry | None, original: bytes | None) -> FileChange | None:
    """Take exactly our entries out of a file that others have edited; None if there are none."""
    if now is None or not found(path, now):
        return None
    is_json, was = path.suffix != ".toml", None
    if is_json and original is not None:  # tells which empty objects were the user's
        with suppress(EditError, UnicodeDecodeError):
            was = json_settings.load(decode(original)[0])
    with _explained(path):
        text, mark = decode(now)
        rest = str(_editor(path).withdraw(text, was))
    bare = not rest.strip()  # or nothing is left but what we ourselves put around our entries
    if is_json and not bare and not json_settings.COMMENT.search(rest):
        bare = json_settings.load(rest) in ({}, {"version": 1})
    ours_alone = entry is not None and not entry.before and bare
    return FileChange(path, now, None if ours_alone else mark + rest.encode("utf-8"), entry)


def uninstall(changes: Sequence[FileChange], record: InstallRecord) -> None:
    """Write first, then forget: an interrupted run can be run again."""
    _write(changes)
    for change in changes:
        for folder in map(Path, change.entry.folders if change.entry else ()):
            if change.after is None:
                with suppress(OSError):  # others keep something there, or it has gone already
                    folder.rmdir()
    record.change([change.path for change in changes])
    for change in changes:
        if change.entry and change.restored:
            record.discard(change.entry.before)


def found(path: Path, data: bytes | None) -> FoundEntries:
    """Our entries in the file."""
    if data is None:
        return FoundEntries()
    with _explained(path):
        entries: FoundEntries = _editor(path).find(decode(data)[0])
    return entries


def _editor(path: Path) -> ModuleType:
    """The module that edits files of this kind: it has `register`, `withdraw` and `find`."""
    if path.suffix != ".toml":
        return json_settings
    from mcp_memory.install import toml_settings  # loads a TOML editor, which only few need

    return toml_settings


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what is wrong with a file into an error that says what to do about it."""
    try:
        yield
    except (EditError, UnicodeDecodeError) as error:
        raise MemoryFault(
            f"{path} cannot be edited: {error}. Correct the file, or move it away, and run the command again; "
            "nothing was changed."
        ) from error


def read(path: Path) -> bytes | None:
    """What the file holds; None if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MemoryFault(f"{path} cannot be read: {error.strerror}. Nothing was changed.") from error


def decode(data: bytes) -> tuple[str, bytes]:
    """The text, and the byte order mark before it, if there is one."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    return data[len(mark) :].decode("utf-8"), mark


def digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _write(changes: Sequence[FileChange]) -> None:
    """Give each file its new contents. Refused if it is no longer what the change was made from."""
    for change in changes:
        if change.before == change.after:
            continue
        private = change.entry is None or change.entry.scope == USER
        target = Path(os.path.realpath(change.path))  # a link into a directory of dotfiles stays a link
        if read(target) != change.before:
            raise MemoryFault(f"{change.path} was changed by another program in this moment. Run the command again.")
        try:
            if change.after is None:
                target.unlink(missing_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
            mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600 if private else 0o644
            _replace(target, change.after, mode)
        except OSError as error:
            raise MemoryFault(f"{change.path} cannot be written: {error.strerror}.") from error


def _replace(path: Path, data: bytes, mode: int) -> None:
    """Write a file whole or not at all."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
