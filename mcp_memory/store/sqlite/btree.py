"""Rows from the pages of a table or an index, past everything that cannot be read.

Each tree is walked once, each of its pages at most once, so that the effort is bounded by the size of the file whatever
its pages say.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from mcp_memory.store.sqlite.pages import Image

Value = int | float | str | bytes | None
Record = tuple[Value, ...]
#: Table and index pages: inner ones lead to others, leaves hold rows; inner ones of an index hold rows, too.
TABLE_INNER, TABLE_LEAF, INDEX_INNER, INDEX_LEAF = 0x05, 0x0D, 0x02, 0x0A
_INNER = (TABLE_INNER, INDEX_INNER)
#: What a row takes at least, with the place that is kept for it.
_LEAST_CELL = 6
#: A page with so many rows that are none has no others.
_HOPELESS = 100
_INTEGER_SIZES = (0, 1, 2, 3, 4, 6, 8)


class Unreadable(Exception):
    """These bytes are no row."""


@dataclass(slots=True)
class Page:
    kind: int
    data: bytes
    cells: tuple[int, ...]
    #: The last child of an inner page.
    last: int = 0


@dataclass(slots=True)
class Tree:
    """The rows beneath a root page. What was met on the way is known when all have been taken."""

    image: Image
    root: int
    #: An index, or a table without row numbers.
    keyed: bool = False
    reached: set[int] = field(default_factory=set)
    #: Pages that lead nowhere, and rows that are none.
    broken: int = 0
    _chained: int = 0

    def rows(self) -> Iterator[tuple[int, Record]]:
        """Number and values; the number is 0 in an index."""
        for page in self.pages():
            yield from self.rows_of(page)

    def pages(self) -> Iterator[Page]:
        """The pages that hold rows, in order. A tree with more faults than the file has pages is none."""
        todo, met = [self.root], {self.root}
        while todo and self.broken <= self.image.count:
            page = self._page(todo.pop())
            if page is None:
                continue
            if page.kind in _INNER:
                children = [int.from_bytes(page.data[cell : cell + 4], "big") for cell in page.cells]
                new = dict.fromkeys(child for child in (*children, page.last) if child not in met)
                self.broken += len(children) + 1 - len(new)
                met.update(new)
                todo += reversed(new)
            if page.kind != TABLE_INNER:
                yield page

    def _page(self, number: int) -> Page | None:
        page = page_of(self.image, number)
        kinds = (INDEX_INNER, INDEX_LEAF) if self.keyed else (TABLE_INNER, TABLE_LEAF)
        # Only a root has no rows; anywhere else they were there once.
        if page is None or page.kind not in kinds or not (page.cells or number == self.root):
            self.broken += 1
            return None
        self.reached.add(number)
        return page

    def rows_of(self, page: Page) -> Iterator[tuple[int, Record]]:
        skip = 4 if page.kind == INDEX_INNER else 0
        limit = self.broken + _HOPELESS
        for cell in page.cells:
            if self.broken > limit:
                return
            try:
                length, at = varint(page.data, cell + skip)
                rowid = 0
                if not self.keyed:
                    rowid, at = varint(page.data, at)
                yield signed(rowid), record(self._payload(page.data, at, length))
            except (Unreadable, IndexError, UnicodeDecodeError):
                self.broken += 1

    def _payload(self, page: bytes, at: int, length: int) -> bytes:
        """What a cell holds: on its page, or begun there and carried on by a chain of others."""
        usable = self.image.usable
        most = (usable - 12) * 64 // 255 - 23 if self.keyed else usable - 35
        if length <= most:
            return _part(page, at, length)
        if length > self.image.count * usable:
            raise Unreadable
        least = (usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (usable - 4)
        local = local if local <= most else least
        parts = [_part(page, at, local)]
        following = int.from_bytes(_part(page, at + local, 4), "big")
        left = length - local
        met: set[int] = set()
        while left > 0:
            chained = self._chain(following, met)
            following = int.from_bytes(chained[:4], "big")
            parts.append(chained[4 : min(usable, left + 4)])
            left -= usable - 4
        if following:
            raise Unreadable
        return b"".join(parts)

    def _chain(self, number: int, met: set[int]) -> bytes:
        """The next page of a chain. All chains together are no longer than the file, but for rows that are none."""
        self._chained += 1
        page = self.image.page(number) if 1 < number <= self.image.count else None
        if page is None or number in met or self._chained > 4 * self.image.count:
            raise Unreadable
        met.add(number)
        return page


def page_of(image: Image, number: int) -> Page | None:
    """The page's cells; none if it is no page of a tree."""
    data = image.page(number) if 0 < number <= image.count else None
    if data is None:
        return None
    start = 100 if number == 1 else 0
    kind, _, count = struct.unpack_from(">BHH", data, start)
    inner = kind in _INNER
    if not inner and kind not in (TABLE_LEAF, INDEX_LEAF):
        return None
    begin = start + (12 if inner else 8)
    if begin + _LEAST_CELL * count > image.usable:
        return None
    cells = struct.unpack_from(f">{count}H", data, begin)
    last = int.from_bytes(data[start + 8 : start + 12], "big") if inner else 0
    return Page(kind, data, cells, last)


def _part(data: bytes, at: int, length: int) -> bytes:
    part = data[at : at + length]
    if len(part) != length:
        raise Unreadable
    return part


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where the next one begins."""
    value = 0
    for index in range(at, at + 8):
        byte = data[index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, index + 1
    return value << 8 | data[at + 8], at + 9


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def record(payload: bytes) -> Record:
    """The values of a row, which fill its bytes exactly. Text that is not UTF-8 raises UnicodeDecodeError."""
    size, at = varint(payload, 0)
    if not at <= size <= len(payload):
        raise Unreadable
    values: list[Value] = []
    place = size
    while at < size:
        kind, at = varint(payload, at)
        value, place = _value(payload, place, kind)
        values.append(value)
    if at != size or place != len(payload) or not values:
        raise Unreadable
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind >= 12:
        length = (kind - 12) // 2
        part = _part(payload, at, length)
        return (part.decode() if kind & 1 else part), at + length
    if kind == 0:
        return None, at
    if kind <= 6:
        length = _INTEGER_SIZES[kind]
        return int.from_bytes(_part(payload, at, length), "big", signed=True), at + length
    if kind == 7:
        return float(struct.unpack(">d", _part(payload, at, 8))[0]), at + 8
    if kind in (8, 9):
        return kind - 8, at
    raise Unreadable
