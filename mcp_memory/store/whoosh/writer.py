"""The files of the Whoosh index: what stands in them, how they are written, and who may write."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from whoosh import columns, fields, formats
from whoosh.analysis import IDTokenizer
from whoosh.codec.whoosh3 import W3Codec
from whoosh.filedb.filestore import FileStorage
from whoosh.filedb.structfile import StructFile
from whoosh.index import FileIndex
from whoosh.reading import SegmentReader

from mcp_memory.domain.terms import WEIGHTS, IndexChanges, Standing
from mcp_memory.domain.unicode61 import index_words
from mcp_memory.store.whoosh.searcher import COLUMNS, FORMAT, NAME

#: Segments of one size are merged when there are so many, as long as they hold no more documents than that together:
#: a commit must not take minutes.
_MANY, _LARGEST, _SMALL = 4, 10_000, 16
#: What is sorted in one go. Nothing else runs meanwhile, so a server would not answer for as long as it takes.
_SORTED_MB = 32
_LOCK = "writing.lock"


def _text() -> fields.FieldType:
    """Words with their places. They come analyzed, and lengths are kept as one number for the whole document."""
    field = fields.TEXT(analyzer=IDTokenizer())
    field.format, field.scorable = formats.Positions(), False
    return field


#: `key` is the document's number as a word, to replace it by; `number` the same as a value, to tell what was found.
SCHEMA = fields.Schema(
    key=fields.ID(unique=True),
    **{name: fields.COLUMN(columns.NumericColumn(kind)) for name, kind in COLUMNS.items()},
    **{name: _text() for name in WEIGHTS},
)


class Storage(FileStorage):  # type: ignore[misc]  # Whoosh has no types
    """Whoosh's directory of files. It knows what was opened, which Whoosh leaves open when it meets a broken file."""

    def open_file(self, name: str, **options: Any) -> StructFile:
        self.files = [*getattr(self, "files", ()), super().open_file(name, **options)]
        return self.files[-1]


@contextmanager
def opened(folder: Path) -> Iterator[FileIndex]:
    """The index in these files, which are all closed again if one of them turns out to be broken."""
    storage = Storage(str(folder))
    try:
        yield FileIndex(storage, schema=SCHEMA, indexname=NAME)
    except BaseException:
        for file in getattr(storage, "files", ()):
            if not file.is_closed:
                file.close()
        raise


@contextmanager
def right_to_write(folder: Path) -> Iterator[bool]:
    """Hold the right to write, if no other process does. The system takes it from a process that has died."""
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = FileStorage(str(folder)).lock(_LOCK)
    held = bool(lock.acquire())
    try:
        if held:
            # What a process left behind that died while it wrote: its words are in there too.
            _delete([*folder.glob("*.tmp"), *folder.glob(f"_{NAME}_*.toc.*")])
        yield held
    finally:
        if held:
            lock.release()


def clear(folder: Path) -> None:
    """Throw all files of the index away; the lock stays, since it is held."""
    _delete([path for path in folder.iterdir() if path.name != _LOCK])


def _delete(paths: Sequence[Path]) -> None:
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def write(folder: Path, held: str | None, changes: IndexChanges) -> None:
    """Bring the files on from the position that they hold, in one commit, which takes no more than it should at once.

    The position is said before the generation is there that reaches it, so that whichever there is tells what is in it.
    Segments that held what was erased are written anew, so that no file tells of it any more. Of these one commit takes
    a bounded number, and at least one; only when all are done the position is reached.
    """
    if changes.standing is Standing.UNUSABLE:
        clear(folder)
        FileIndex.create(FileStorage(str(folder)), SCHEMA, NAME)
    with opened(folder) as index:
        codec = W3Codec()
        codec.length_stats = False  # the lengths of single fields are of no use here, and cost a third of the time
        writer = index.writer(codec=codec, limitmb=_SORTED_MB)
        try:
            for number in changes.replaced:
                writer.delete_by_term("key", str(number))
            for document in changes.documents:
                texts = zip(WEIGHTS, document.columns(), strict=True)
                told = {name: found for name, text in texts if (found := index_words(text))}
                values = {"number": document.number, "event": int(document.is_event), "at": document.at}
                writer.add_document(key=str(document.number), size=sum(map(len, told.values())), **values, **told)
            position = changes.position
            if changes.standing is Standing.ERASED:
                holding = _take_out(writer, changes.kept)
                sizes = accumulate(segment.doc_count_all() for segment in holding)
                chosen = [each for each, size in zip(holding, sizes, strict=True) if size <= _LARGEST] or holding[:1]
                position = position if len(chosen) == len(holding) else str(held)
            else:
                chosen = _tier(writer.segments)
            reached = folder / f"position_{writer.generation}.json"
            reached.write_text(json.dumps({"format": FORMAT, "position": position}), "utf-8")
            writer.commit(mergetype=partial(_rewrite, chosen))
        except BaseException:
            if not writer.is_closed:
                writer.cancel()
            raise
    for path in folder.iterdir():
        if path.match("position_*.json") and path != reached:
            path.unlink()
        else:
            path.chmod(0o600)  # the directory is closed to others already, but files may be copied


def _take_out(writer: Any, kept: Collection[int]) -> list[Any]:
    """Take out all documents but these; the segments that held any."""
    with closing(writer.reader()) as reader:
        for leaf, base in reader.leaf_readers():
            deleted, numbers = set(leaf.segment().deleted_docs()), leaf.column_reader("number")
            for place in range(leaf.doc_count_all()):
                if place not in deleted and numbers[place] not in kept:
                    writer.delete_document(base + place)
    return [segment for segment in writer.segments if segment.has_deletions()]


def _tier(segments: Sequence[Any]) -> list[Any]:
    """The smallest segments, once there are many of about their size, to merge: so there are never many in all."""
    tiers: dict[int, list[Any]] = {}
    for segment in segments:
        tiers.setdefault(round(math.log(max(segment.doc_count_all() / _SMALL, 1), _MANY)), []).append(segment)
    many = (tier for _, tier in sorted(tiers.items()) if len(tier) >= _MANY)
    return next((tier for tier in many if sum(segment.doc_count_all() for segment in tier) <= _LARGEST), [])


def _rewrite(chosen: Sequence[Any], writer: Any, segments: list[Any]) -> list[Any]:
    """Write what the chosen segments hold into a new one; the others stay."""
    for segment in chosen:
        with closing(SegmentReader(writer.storage, writer.schema, segment)) as reader:
            writer.add_reader(reader)
    return [segment for segment in segments if segment not in chosen]
