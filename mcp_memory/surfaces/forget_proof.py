"""A report on a deletion that can be shown to somebody else: what was there before, and that nothing is left.

The report holds no forgotten word. What was asked stands in it as a salted digest, and file names that bear a word
stand in it with the word cut out.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from mcp_memory import __version__
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.matching import TextMatch, match_of
from mcp_memory.domain.text import same_letters
from mcp_memory.errors import StoreError, UsageError
from mcp_memory.store.sqlite import scan as file_scan
from mcp_memory.store.whoosh.searcher import documents_with
from mcp_memory.surfaces.byte_scan import ByteScanner, ScanResult
from mcp_memory.team.account import write_private

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.config import Settings

FORMAT = 1
NOTHING_LEFT, FOUND, PROVES_NOTHING, INCOMPLETE = "nothing left", "found", "proves nothing", "incomplete"
#: The work factor of the digest of what was asked: a fifth of a second for each guess.
_SCRYPT = {"n": 1 << 15, "r": 8, "p": 1}
_SCRYPT_BYTES = 1 << 26
#: Texts that are looked for where events were not named by a text.
_MAX_TEXTS = 8
#: Lines that are tried for that, since most are said more than once.
_MAX_TRIED = 40
#: How much of a line is looked for, and how much it has to have.
_MAX_TEXT_CHARS, _MIN_TEXT_CHARS = 48, 12
#: Events that are read to choose texts from.
_MAX_READ = 2_000
#: Values are looked through in portions of about so many characters.
_PORTION_CHARS = 1 << 20
_BETWEEN = "\n\u241e\n"
#: What the rows of a table are to a user; the others stand under the names of their tables.
_KINDS = {
    "event": "events",
    "node": "nodes",
    "node_version": "nodes",
    "bullet": "nodes",
    "mention": "nodes",
    "grip": "grips",
    "compaction": "records",
    "brief": "briefs",
    "inbox": "inbox",
    "handed": "answers to agents",
    "checkpoint": "transcript readers",
    "session": "names",
    "project": "names",
    "project_alias": "names",
    "place": "names",
    "llm_answer": "answers of models",
    "llm_call": "answers of models",
    "llm_state": "answers of models",
}
_FOLDERS = {"backups": "backups", "spool": "spool", "logs": "log", "whoosh": "index entries"}
_DAMAGED = "a damaged database, of which only the bytes were looked at"

_NOT_LOOKED_AT = (
    "transcripts that clients keep, and copies outside the data directory, unless they are named here",
    "blocks that the file system or the disk keeps of files that were overwritten or deleted",
)
_NOT_LOOKED_AT_ON_SERVER = ("the database server's data files, its write-ahead log, its archives and its dumps",)
_NOT_LOOKED_AT_IN_TEAM = ("the laptops of other members, which drop what they heard when they next reach the server",)
_BRINGS_BACK = (
    "saying it again: what is said after the deletion is new",
    "lifting the refusal, or losing the key of the refusals, and then importing a transcript that still holds it",
    "importing such a transcript into another memory, or restoring a backup where there is no inbox.db of this memory",
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class FileFinds:
    """A file of the data directory, and how often it holds what is looked for."""

    name: str
    size: int
    sha256: str
    result: ScanResult
    #: Pages of a database that belong to no table.
    free_pages: int | None = None
    #: Why the file, or the tables of a damaged database, could not be read.
    unread: str = ""

    def shape(self, scanner: ByteScanner) -> dict[str, Any]:
        shape = {
            "name": shown_name(self.name, scanner),
            "bytes": self.size,
            "sha256": self.sha256,
            "finds": self.result.total,
        }
        forms = {"forms": dict(self.result.finds)} if self.result.finds else {}
        streams = {"compressed_streams": self.result.streams} if self.result.streams else {}
        unopened = {"not_opened": dict(self.result.unopened)} if self.result.unopened else {}
        pages = {"free_pages": self.free_pages} if self.free_pages is not None else {}
        unread = {"not_read": self.unread} if self.unread else {}
        return shape | forms | streams | unopened | pages | unread


@dataclass
class Survey:
    """All that holds the texts at one moment."""

    #: Finds in tables and files, by what they are to a user.
    kinds: Counter[str] = field(default_factory=Counter)
    files: list[FileFinds] = field(default_factory=list)
    #: Tables of a server, with their size and the finds in them.
    relations: list[tuple[str, int, int]] = field(default_factory=list)
    statistics: int | None = None
    #: Documents that an index finds by the words of the texts, by the index.
    indexes: dict[str, int] = field(default_factory=dict)
    #: File names that bear a text.
    names: int = 0

    @property
    def total(self) -> int:
        in_files = sum(found.result.total for found in self.files)
        return in_files + sum(self.kinds.values()) + sum(self.indexes.values()) + self.names + (self.statistics or 0)

    def shape(self, scanner: ByteScanner) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "finds": self.total,
            "kinds": dict(sorted(self.kinds.items())),
            "files": [found.shape(scanner) for found in self.files],
            "file_names": self.names,
            "indexes": self.indexes,
        }
        if self.relations:
            rows = [{"name": name, "bytes": size, "finds": finds} for name, size, finds in self.relations]
            shape |= {"relations": rows, "pg_stats": self.statistics}
        return shape

    @property
    def counts(self) -> dict[str, Any]:
        """The finds alone, as they are told of the time before."""
        files = sum(1 for found in self.files if found.result.total)
        bytes_found = sum(found.result.total for found in self.files)
        shape = {"finds": self.total, "kinds": dict(sorted(self.kinds.items())), "indexes": self.indexes}
        more = {"pg_stats": self.statistics} if self.statistics is not None else {}
        return shape | {"files": files, "finds_in_raw_bytes": bytes_found, "file_names": self.names} | more


def survey(
    settings: Settings, texts: Sequence[str], progress: Progress = lambda done, total: None, *, part: bool = False
) -> Survey:
    """Look for texts in every file of the data directory, in all tables, and in the indexes."""
    found, scanner = Survey(), ByteScanner(texts, part=part)
    sought = [match_of(text, part=part) for text in texts]
    paths = [path for path in sorted(settings.home.rglob("*")) if path.is_file() and not path.is_symlink()]
    meter = _BytesRead(sum(path.stat().st_size for path in paths if path.exists()), progress)
    for path in paths:
        with suppress(FileNotFoundError):  # a log that was just emptied into its database
            name = str(path.relative_to(settings.home))
            found.names += scanner.holds(name)
            held = _scan_file(path, name, scanner, meter)
            found.files.append(held)
            kind = _FOLDERS.get(Path(name).parts[0]) or ("backups" if ".bak" in name else "")
            if kind:
                found.kinds[kind] += held.result.total
            elif held.free_pages is not None:
                try:
                    rows = _in_rows(file_scan.values(path), scanner, sought)
                except StoreError:
                    found.files[-1] = replace(held, unread=_DAMAGED)
                    continue
                for table, finds in rows.items():
                    found.kinds[_kind_of(table)] += finds
    _ask_indexes(found, settings, texts)
    if settings.store.url:
        _survey_server(found, settings.store.url, texts, scanner, sought)
    found.kinds = +found.kinds
    return found


@dataclass
class _BytesRead:
    """Reports how much of all files was read."""

    total: int
    progress: Progress
    done: int = 0

    def __call__(self, count: int) -> None:
        self.done += count
        self.progress(min(self.done, self.total), self.total)


def _scan_file(path: Path, name: str, scanner: ByteScanner, on_read: Callable[[int], None]) -> FileFinds:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
        result = scanner.scan_file(path, on_read)
        is_database = file_scan.is_database(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        return FileFinds(name, path.stat().st_size, "", ScanResult(), unread=error.strerror or "it cannot be read")
    try:
        pages = file_scan.count_free_pages(path) if is_database else None
    except StoreError:
        return FileFinds(name, size, digest, result, unread=_DAMAGED)
    return FileFinds(name, size, digest, result, pages)


def _kind_of(table: str) -> str:
    if table.startswith("search"):
        return "index entries"
    # PostgreSQL keeps events in a table for each quarter.
    return _KINDS.get(table) or _KINDS.get(table.partition("_")[0], f"other rows ({table})")


def _in_rows(
    rows: Iterable[tuple[str, str | bytes]], scanner: ByteScanner, sought: Sequence[TextMatch]
) -> dict[str, int]:
    """Return how often each table holds the texts, in whichever spelling answers would match."""
    finds: Counter[str] = Counter()
    for table, portion in _portions(rows):
        count = scanner.scan_bytes(portion).total
        text = portion.decode("utf-8", "replace")
        finds[table] += count or sum(each.is_in(text) for each in sought)
    return +finds


def _portions(rows: Iterable[tuple[str, str | bytes]]) -> Iterator[tuple[str, bytes]]:
    """Join the values of a table into portions."""
    between = _BETWEEN.encode()
    current, parts, size = "", list[bytes](), 0
    for table, value in rows:
        if parts and (table != current or size > _PORTION_CHARS):
            yield current, between.join(parts)
            parts, size = [], 0
        current = table
        parts.append(value if isinstance(value, bytes) else value.encode("utf-8", "replace"))
        size += len(parts[-1])
    if parts:
        yield current, between.join(parts)


def _ask_indexes(found: Survey, settings: Settings, texts: Sequence[str]) -> None:
    if settings.store.url or not settings.database.exists():
        return
    found.indexes["fts5"] = sum(file_scan.count_indexed(settings.database, text) for text in texts)
    if settings.whoosh.is_dir():
        documents = {text: documents_with(settings.whoosh, text) for text in texts}
        counts = [file_scan.count_documents(settings.database, numbers, text) for text, numbers in documents.items()]
        found.indexes["whoosh"] = sum(counts)


def _survey_server(
    found: Survey, url: str, texts: Sequence[str], scanner: ByteScanner, sought: Sequence[TextMatch]
) -> None:
    from mcp_memory.store.postgres import scan as server_scan

    finds = _in_rows(server_scan.values(url), scanner, sought)
    found.statistics = sum(count for name, count in finds.items() if name.startswith(server_scan.STATISTICS))
    for name, size in server_scan.relations(url):
        found.relations.append((name, size, finds.get(name, 0)))
        found.kinds[_kind_of(name)] += finds.get(name, 0)
    found.indexes["postgres"] = sum(server_scan.count_indexed(url, text) for text in texts)


def shown_name(name: str, scanner: ByteScanner) -> str:
    """Return a name with forgotten words cut out; if that is not possible, nothing of it."""
    if not scanner.holds(name):
        return name
    cut = scanner.without(name)
    return cut if not scanner.holds(cut) else "[a name that holds it]"


def cut_out(value: Any, scanner: ByteScanner) -> Any:
    """Return data with forgotten words cut out of every text in it."""
    if isinstance(value, str):
        return shown_name(value, scanner)
    if isinstance(value, Mapping):
        return {name: cut_out(item, scanner) for name, item in value.items()}
    return [cut_out(item, scanner) for item in value] if isinstance(value, list | tuple) else value


# what was asked


def digest_of(request: Mapping[str, str], salt: str) -> str:
    """Return a digest of what was asked that takes long to compute, so that guessing takes long, too."""
    text = "\x1f".join(f"{name}={value}" for name, value in sorted(request.items()))
    told = hashlib.scrypt(text.encode("utf-8", "replace"), salt=bytes.fromhex(salt), maxmem=_SCRYPT_BYTES, **_SCRYPT)
    return told.hex()


def asked_for(request: ForgetRequest) -> dict[str, str]:
    """Return what a request names, in a form that is the same for all spellings of a text."""
    choices = {
        "session": request.session_id,
        "event": request.event_key.hex() if request.event_key else None,
        "project": request.project,
        "before": str(request.before_ms) if request.before_ms is not None else None,
        "match": same_letters(request.match) if request.match is not None else None,
    }
    return {name: value for name, value in choices.items() if value is not None}


async def texts_of(app: App, request: ForgetRequest) -> list[str]:
    """Return the texts to look for: the one that is asked for, or lines that only the erased events have."""
    if request.match is not None:
        return [request.match]
    events = await app.store.events_to_forget(request, _MAX_READ)
    erased = {event.key for event in events}
    lines = {line for event in events for line in map(_telling_part, event.text.splitlines()) if line}
    found = list[str]()
    for line in sorted(lines, key=lambda line: (-len(line), line))[:_MAX_TRIED]:
        if len(found) == _MAX_TEXTS:
            break
        holders = await app.store.events_to_forget(ForgetRequest(match=line), len(erased) + 1)
        if holders and {event.key for event in holders} <= erased:
            found.append(line)
    return found


def _telling_part(line: str) -> str:
    """Return the beginning of a line up to the end of a word, if that is long enough to be rare."""
    words, part = line.split(), ""
    for word in words:
        if len(part) + len(word) >= _MAX_TEXT_CHARS:
            break
        part = f"{part} {word}".strip()
    return part if len(part) >= _MIN_TEXT_CHARS and "[redacted:" not in part else ""


# the report


@dataclass
class Proof:
    """A report in the making: begun before anything is erased, finished afterwards."""

    settings: Settings
    request: ForgetRequest
    texts: list[str]
    before: Survey
    report: dict[str, Any] = field(default_factory=dict)

    @classmethod
    async def begin(cls, app: App, request: ForgetRequest, progress: Progress = lambda done, total: None) -> Proof:
        if app.viewer:
            raise UsageError("A report is made on the machine whose files it is about, not through a team's server.")
        texts = await texts_of(app, request)
        before = await to_thread.run_sync(partial(survey, app.settings, texts, progress, part=request.part))
        return cls(app.settings, request, texts, before)

    async def finish(
        self,
        path: Path,
        outcome: Mapping[str, Any],
        remarks: Sequence[str],
        more: Mapping[str, Any],
        progress: Progress = lambda done, total: None,
    ) -> bool:
        """Look again, write the report, and return whether nothing was found."""
        after = await to_thread.run_sync(partial(survey, self.settings, self.texts, progress, part=self.request.part))
        scanner, salt = ByteScanner(self.texts, part=self.request.part), secrets.token_hex(16)
        asked = asked_for(self.request)
        verdict = _verdict(self.before, after)
        unseen = [*_NOT_LOOKED_AT, *(_NOT_LOOKED_AT_ON_SERVER if self.settings.store.url else ())]
        unseen += _NOT_LOOKED_AT_IN_TEAM if self.settings.account.exists() else ()
        report = {
            "report": "mcp-memory: proof of a deletion",
            "format": FORMAT,
            "version": __version__,
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "asked": {"by": next(iter(asked)), "salt": salt, "scrypt": _SCRYPT, "digest": digest_of(asked, salt)},
            "texts_looked_for": len(self.texts),
            "verdict": verdict,
            "before": self.before.counts,
            "outcome": cut_out(outcome, scanner),
            "after": after.shape(scanner),
            "named_but_not_reached": [shown_name(remark, scanner) for remark in remarks],
            "not_looked_at": unseen,
            **more,
            "would_bring_it_back": list(_BRINGS_BACK),
        }
        self.report = report | {"sha256": hash_of(report)}
        await to_thread.run_sync(write_private, path, self.report)
        return verdict == NOTHING_LEFT

    def summary(self, path: Path) -> str:
        """Return for a person what the report says."""
        return summary_of(self.report, path)


def _verdict(before: Survey, after: Survey) -> str:
    if after.total:
        return FOUND
    if any(file.unread for file in after.files):
        return INCOMPLETE
    return NOTHING_LEFT if before.total else PROVES_NOTHING


def check_place(path: Path, settings: Settings) -> None:
    """Refuse a place where the report cannot be written, before anything is erased."""
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"{path} is no file that can be written: name one in a directory that exists.")
    if settings.home in path.resolve().parents:
        raise UsageError(f"{path} is in the data directory, which the report is about. Name a file outside of it.")


def hash_of(report: Mapping[str, Any]) -> str:
    """Return the hash of a report, apart from the hash that stands in it."""
    told = {name: value for name, value in report.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def load_report(path: Path) -> dict[str, Any]:
    """Return a report that is as it was written."""
    try:
        report = json.loads(path.read_text("utf-8"))
        whole = report["format"] == FORMAT and report["sha256"] == hash_of(report)
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise UsageError(f"{path} is no report of `mcp-memory forget --proof`: {type(error).__name__}.") from None
    if not whole:
        raise UsageError(f"{path} was changed after it was written, or a later version wrote it: its hash is wrong.")
    return dict(report)


def is_about(report: Mapping[str, Any], text: str) -> bool:
    """Return whether the report is about the deletion of this text."""
    asked = report["asked"]
    told = digest_of({"match": same_letters(text)}, str(asked["salt"]))
    return secrets.compare_digest(told, str(asked["digest"]))


def summary_of(report: Mapping[str, Any], path: Path) -> str:
    before, after = report["before"], report["after"]
    kinds = ", ".join(f"{count:,} in {kind}" for kind, count in before["kinds"].items()) or "nothing"
    lines = [f"Before: {before['finds']:,} finds ({kinds}; {before['finds_in_raw_bytes']:,} in the bytes of files)."]
    size = sum(file["bytes"] for file in after["files"])
    looked = f"{len(after['files']):,} files ({size:,} bytes)"
    if "relations" in after:
        looked += f", {len(after['relations']):,} tables of the server and its samples"
    looked += f", {' and '.join(after['indexes']) or 'no'} index"
    lines.append(f"After: {after['finds']:,} finds in {looked}.")
    lines += [f"  {file['name']}: {file['finds']:,} finds" for file in after["files"] if file["finds"]]
    lines += [f"  {name}: {count:,} finds" for name, count in after["kinds"].items() if count]
    unopened = Counter[str]()
    for file in after["files"]:
        unopened.update(file.get("not_opened", {}))
    if unopened:
        told = ", ".join(f"{count} × {kind}" for kind, count in unopened.items())
        lines.append(f"Compressed data that could not be opened: {told}.")
    lines += [
        f"{file['name']} was not read in full: {file['not_read']}." for file in after["files"] if "not_read" in file
    ]
    if report["verdict"] == PROVES_NOTHING:
        lines.append("Nothing was found before either, so this proves nothing.")
    lines.append(f"The report is {path}. Its hash is {report['sha256'][:16]}….")
    return "\n".join(lines)
