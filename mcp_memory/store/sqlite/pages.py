"""The pages of a database file as they were last committed, read without SQLite: a damaged file must not be changed,
and SQLite gives up a whole table for one page that it cannot follow."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import BinaryIO

_MAGIC = b"SQLite format 3\0"
_HEADER = 100
_DEFAULT_SIZE = 4096
_LOG_HEADER, _FRAME_HEADER = 32, 24
_LOG_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}


@dataclass(slots=True)
class Log:
    """The write-ahead log: where in it the latest committed version of each page lies."""

    page_size: int = 0
    #: Pages of the database after the last commit; 0 if there was none.
    count: int = 0
    places: dict[int, int] = field(default_factory=dict)
    #: Whether something that was committed lies behind a frame that cannot be trusted.
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Header:
    """The first 100 bytes of a database; all is 0 if they cannot be read."""

    known: bool = False
    reserved: int = 0
    #: Pages of the file, if the one who wrote it last has kept count.
    count: int = 0
    #: Where the list of free pages begins.
    free: int = 0
    #: The version of the schema.
    version: int = 0


class Image:
    """A file and its log as one row of pages. What the disk does not give is missing, not an error."""

    def __init__(self, file: BinaryIO, log: BinaryIO | None = None) -> None:
        self._file, self._log_file = file, log
        self.log = read_log(log) if log else Log()
        first = _read(file, 0, _HEADER)
        self.size = _page_size(first) or self.log.page_size or _DEFAULT_SIZE
        if self.log.page_size != self.size:
            self.log = Log(cut=self.log.cut or bool(self.log.places))
        header = _header(self.page(1) or b"" if 1 in self.log.places else first)
        self.version = header.version if header.known else None
        #: What of a page holds data; the rest is reserved.
        self.usable = self.size - header.reserved
        held = max(-(-_length(file) // self.size), max(self.log.places, default=0))
        self.count = min(self.log.count or header.count or held, held)
        self._free = header.free

    def page(self, number: int) -> bytes | None:
        place = self.log.places.get(number)
        if place is not None and self._log_file is not None:
            found = _read(self._log_file, place, self.size)
        else:
            found = _read(self._file, (number - 1) * self.size, self.size)
        return found if len(found) == self.size else None

    def free_pages(self) -> set[int]:
        """Pages that belong to nothing. What was in them was deleted and must not come back."""
        found: set[int] = set()
        trunk = self._free
        while 1 < trunk <= self.count and trunk not in found:
            found.add(trunk)
            page = self.page(trunk)
            if page is None:
                break
            trunk, leaves = struct.unpack_from(">II", page)
            leaves = min(leaves, self.usable // 4 - 2)
            found.update(struct.unpack_from(f">{leaves}I", page, 8))
        return found


def _header(page: bytes) -> Header:
    if len(page) < _HEADER or not page.startswith(_MAGIC):
        return Header()
    reserved = page[20] if page[20] < 64 else 0
    counted = page[24:28] == page[92:96]
    count, free, version = (int.from_bytes(page[at : at + 4], "big") for at in (28, 32, 60))
    return Header(True, reserved, count if counted else 0, free, version)


def _page_size(header: bytes) -> int:
    if not header.startswith(_MAGIC) or len(header) < _HEADER:
        return 0
    size = int.from_bytes(header[16:18], "big")
    size = 65536 if size == 1 else size
    return size if 512 <= size <= 65536 and not size & (size - 1) else 0


def read_log(file: BinaryIO) -> Log:
    """The log up to its last commit before the first frame that is torn or of an earlier round, as SQLite reads it."""
    header = _read(file, 0, _LOG_HEADER)
    if len(header) < _LOG_HEADER:
        return Log()
    magic, _, size, _, *rest = struct.unpack(">8I", header)
    order, salts, sums = _LOG_MAGIC.get(magic), tuple(rest[:2]), tuple(rest[2:])
    if order is None or _sum(header[:24], order, (0, 0)) != sums or not 512 <= size <= 65536:
        return Log(cut=_length(file) > _LOG_HEADER)
    log, pending = Log(page_size=size), dict[int, int]()
    place = _LOG_HEADER
    while len(frame := _read(file, place, _FRAME_HEADER + size)) == _FRAME_HEADER + size:
        number, commit, *marks = struct.unpack(">6I", frame[:_FRAME_HEADER])
        if tuple(marks[:2]) != salts:
            break
        sums = _sum(frame[_FRAME_HEADER:], order, _sum(frame[:8], order, sums))
        if tuple(marks[2:]) != sums:
            log.cut = _commits_after(file, place, size, salts)
            break
        pending[number] = place + _FRAME_HEADER
        if commit:
            log.count = commit
            log.places |= pending
            pending.clear()
        place += _FRAME_HEADER + size
    return log


def _commits_after(file: BinaryIO, place: int, size: int, salts: tuple[int, ...]) -> bool:
    """Whether a frame from here on ends a transaction of this round: a write that was merely interrupted has none."""
    while len(frame := _read(file, place, _FRAME_HEADER)) == _FRAME_HEADER:
        _, commit, *marks = struct.unpack(">6I", frame)
        if commit and tuple(marks[:2]) == salts:
            return True
        place += _FRAME_HEADER + size
    return False


def _sum(data: bytes, order: str, start: tuple[int, ...]) -> tuple[int, int]:
    first, second = start
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for one, two in zip(words, words, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second


def _read(file: BinaryIO, place: int, length: int) -> bytes:
    """As much of it as there is: a disk may refuse to read what is on it."""
    try:
        file.seek(place)
        return file.read(length) or b""
    except OSError:
        return b""


def _length(file: BinaryIO) -> int:
    return file.seek(0, 2)
