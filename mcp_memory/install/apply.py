"""Settings files on the disk: read as text that can be written back byte for byte, replaced whole or not at all."""

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
from mcp_memory.clients.port import Folders
from mcp_memory.errors import MemoryFault, StoreFull
from mcp_memory.install import json_settings, toml_settings
from mcp_memory.install.catalog import USER, Client, Found, Launch, Wanted
from mcp_memory.install.jsonc import COMMENT, JsonError, load
from mcp_memory.install.toml_settings import TomlError


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


def editor(path: Path) -> ModuleType:
    """The module that edits files of this kind: it has `register`, `withdraw` and `find`."""
    return toml_settings if path.suffix == ".toml" else json_settings


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn what is wrong with a file into an error that says what to do about it."""
    try:
        yield
    except (JsonError, TomlError, UnicodeDecodeError) as error:
        raise MemoryFault(
            f"{path} cannot be edited: {error}. Correct the file, or move it away, and run the command again; "
            "nothing was changed."
        ) from error


def digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def missing_folders(path: Path) -> list[Path]:
    """The directories that would have to be made for this file, innermost first."""
    return [folder for folder in path.parents if not folder.exists()]


def write(path: Path, expected: bytes | None, data: bytes | None, *, private: bool) -> None:
    """Give the file new contents, or remove it. Refused if it is no longer what the change was made from."""
    target = Path(os.path.realpath(path))  # a link into a directory of dotfiles stays a link
    if read(target) != expected:
        raise MemoryFault(f"{path} was changed by another program in this moment. Run the command again.")
    try:
        if data is None:
            target.unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
        _write(target, data, _mode(target, private))
    except OSError as error:
        raise MemoryFault(f"{path} cannot be written: {error.strerror}.") from error


def _mode(path: Path, private: bool) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return 0o600 if private else 0o644


def _write(path: Path, data: bytes, mode: int) -> None:
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


class Record:
    """The list of entries with its backups. Every change is written at once."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._file = home / FILE
        self._entries = _load(self._file)

    def entries(self, client: str | None = None) -> list[Entry]:
        return [entry for entry in self._entries if client in (None, entry.client)]

    def of(self, path: Path) -> Entry | None:
        return next((entry for entry in self._entries if entry.path == str(path)), None)

    def put(self, new: Sequence[Entry]) -> None:
        """Remember these entries, in place of what was known of the same files."""
        paths = {entry.path for entry in new}
        self._save([*(entry for entry in self._entries if entry.path not in paths), *new])

    def drop(self, paths: Sequence[Path]) -> None:
        gone = {str(path) for path in paths}
        self._save([entry for entry in self._entries if entry.path not in gone])

    def keep(self, data: bytes) -> None:
        """Store a file's contents, which may hold keys: readable by its owner only."""
        _write_private(self._home / _BACKUPS / digest(data), data)

    def backup(self, before: str) -> bytes | None:
        """The contents of this digest; None if they were never kept or are no longer what they were."""
        try:
            data = (self._home / _BACKUPS / before).read_bytes() if before else None
        except OSError:
            return None
        return data if digest(data) == before else None

    def discard(self, before: str) -> None:
        """Forget contents that are back in their place and needed by no other entry."""
        if before and all(entry.before != before for entry in self._entries):
            (self._home / _BACKUPS / before).unlink(missing_ok=True)
        folder = self._home / _BACKUPS
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()

    def _save(self, entries: list[Entry]) -> None:
        self._entries = entries
        if not entries:
            self._file.unlink(missing_ok=True)
            return
        document = {"version": 1, "files": [asdict(entry) for entry in entries]}
        _write_private(self._file, json.dumps(document, indent=1).encode())


def _load(path: Path) -> list[Entry]:
    try:
        document: Any = json.loads(path.read_bytes())
        return [replace(Entry(**item), folders=tuple(item["folders"])) for item in document["files"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise MemoryFault(
            f"{path} cannot be read ({type(error).__name__}). Move it away and run the command again: our entries are "
            "then found by what they look like."
        ) from error


def _write_private(path: Path, data: bytes) -> None:
    """Store a file whole or not at all, in a directory and with a mode that keep others out."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        private_dir(str(path.parent))
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise StoreFull(
            f"{path} cannot be written: {error.strerror}. No settings file was changed. Free some space, correct the "
            "permissions, or set MCP_MEMORY_HOME to another directory."
        ) from error


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
        before = read(path)
        after = _registered(path, before, wanted)
        template = Entry(client.name, scope, str(root.root), str(path), "", "", installed_ms=now_ms)
        changes.append(Change(path, before, after, _entry(template, path, before, after, record)))
    return changes


def _registered(path: Path, before: bytes | None, wanted: Wanted) -> bytes:
    with told(path):
        text, mark = decode(before or b"")
        new: str = editor(path).register(text, wanted)
    return mark + new.encode("utf-8")


def _entry(new: Entry, path: Path, before: bytes | None, after: bytes, record: Record) -> Entry | None:
    """What to remember of the file, so that it can be put back; None if nothing new is to be remembered."""
    known = record.of(path)
    if not found(path, before):
        folders = tuple(map(str, missing_folders(path)))
        kept = known.folders if known else ()
        return replace(new, before=digest(before), after=digest(after), folders=folders or kept)
    if known is None:  # entries made by hand or by another installation: there is no state without them to go back to
        return replace(new, before=digest(before), after="", clean=False)
    if before == after:
        return None
    untouched = known.after == digest(before)
    return replace(known, after=digest(after) if untouched else "")


def found(path: Path, data: bytes | None) -> Found:
    """Our entries in the file."""
    if data is None:
        return Found()
    with told(path):
        result: Found = editor(path).find(decode(data)[0])
    return result


def install(changes: Sequence[Change], record: Record) -> None:
    """Remember first, then write: whatever happens in between, `uninstall` knows what to do."""
    for change in changes:
        first = change.entry is not None and change.entry.before == digest(change.before)
        if first and change.before is not None:
            record.keep(change.before)
    record.put([change.entry for change in changes if change.entry])
    _write_all(changes)


def plan_uninstall(client: Client, roots: Iterable[tuple[str, Folders]], record: Record) -> list[Change]:
    """How to undo every recorded installation, and what else of ours stands in these scopes' files."""
    known = {Path(entry.path): entry for entry in record.entries(client.name)}
    others = [path for scope, root in roots for path in client.files(scope, root) if path not in known]
    changes = [_undo(path, entry, record) for path, entry in known.items()]
    return changes + [change for path in dict.fromkeys(others) if (change := _strip(path, read(path), None, None))]


def _undo(path: Path, entry: Entry, record: Record) -> Change:
    now = read(path)
    if now is None or (entry.clean and digest(now) == entry.before):
        return Change(path, now, now, entry, restored=True)
    original = record.backup(entry.before)
    if entry.after and digest(now) == entry.after and (original is not None or not entry.before):
        return Change(path, now, original, entry, restored=True)
    return _strip(path, now, entry, _value(path, original)) or Change(path, now, now, entry)


def _strip(path: Path, now: bytes | None, entry: Entry | None, original: Any) -> Change | None:
    """Take exactly our entries out of a file that others have edited; None if there are none."""
    if now is None or not found(path, now):
        return None
    with told(path):
        text, mark = decode(now)
        rest: str = editor(path).withdraw(text, original)
    ours_alone = entry is not None and not entry.before and _is_bare(path, rest)
    return Change(path, now, None if ours_alone else mark + rest.encode("utf-8"), entry)


def _value(path: Path, data: bytes | None) -> Any:
    """The JSON document as it was, to tell which empty objects were the user's."""
    try:
        return load(decode(data)[0]) if data is not None and path.suffix != ".toml" else None
    except (JsonError, UnicodeDecodeError):
        return None


def _is_bare(path: Path, text: str) -> bool:
    """Whether nothing is left but what we ourselves put around our entries."""
    if path.suffix == ".toml" or not text.strip():
        return not text.strip()
    return not COMMENT.search(text) and load(text) in ({}, {"version": 1})


def uninstall(changes: Sequence[Change], record: Record) -> None:
    """Write first, then forget: an interrupted run can be run again."""
    _write_all(changes)
    for change in changes:
        for folder in map(Path, change.entry.folders if change.entry else ()):
            if change.after is None:
                with suppress(OSError):  # others keep something there, or it has gone already
                    folder.rmdir()
    record.drop([change.path for change in changes])
    for change in changes:
        if change.entry and change.restored:
            record.discard(change.entry.before)


def _write_all(changes: Sequence[Change]) -> None:
    for change in changes:
        if change.before != change.after:
            private = change.entry is None or change.entry.scope == USER
            write(change.path, change.before, change.after, private=private)
