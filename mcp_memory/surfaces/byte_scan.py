"""Find texts in raw bytes: in any case, as other formats encode them, and inside compressed streams.

A file is read in chunks that overlap, so its size does not matter. Nothing that is found is kept or written.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import lzma
import re
import struct
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

#: Bytes that are read at once.
CHUNK_BYTES = 1 << 20
#: What a compressed stream may expand to before the rest of it is left unread, which is reported.
MAX_EXPANDED_BYTES = 1 << 30
#: Streams within streams, as a gzip file in a zip file.
MAX_DEPTH = 4
#: A stream is taken for one if so much of it can be expanded.
_PROBE_BYTES = 4096
#: The header of a zip member is as long as the names in it.
_HEADER_BYTES = _PROBE_BYTES + 2**16
#: Runs of base64 at least this long are decoded. A shorter one is found in the usual spellings of letter case.
_BASE64_RUN = re.compile(rb"[A-Za-z0-9+/_-]{24,}(?:(?:\r?\n|\\+n)[A-Za-z0-9+/_-]{4,})*")
_LINE_BREAKS = re.compile(rb"\r?\n|\\+n")
#: Fewer characters stand in other texts by chance.
_MIN_BASE64_CHARS = 5
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
#: How each kind of compressed stream begins. A stream of bare deflate is only known as a member of a zip file.
#: Literals are searched ten times as fast one by one as in one expression.
_MAGICS = (
    ("gzip", b"\x1f\x8b\x08"),
    *(("zlib", b"\x78" + level) for level in (b"\x01", b"\x5e", b"\x9c", b"\xda")),
    ("zip", b"PK\x03\x04"),
    ("bz2", b"BZh"),
    ("xz", b"\xfd7zXZ\x00"),
    ("zstd", b"\x28\xb5\x2f\xfd"),
    ("7z", b"7z\xbc\xaf\x27\x1c"),
)
#: Fewer hexadecimal digits in a row are no text.
_HEX_RUN = re.compile(rb"[0-9a-fA-F]{6}")
_ZIP_HEADER = struct.Struct("<4s5H3I2H")
_ENCRYPTED = 1
_STORED, _DEFLATED, _BZIP2, _LZMA, _XZ, _ZSTD = 0, 8, 12, 14, 95, 93
#: What may stand before and after a whole word: no letter or digit of ASCII, but the end of an escape.
_TEXT_ENDS = (
    rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9a-fA-F]{2}))",
    rb"(?![A-Za-z0-9])",
)
#: Texts of one byte order also match in the other, a byte off, where the data begins or ends in the middle.
_LE_ENDS = (rb"(?<![A-Za-z0-9]\x00)", rb"(?![A-Za-z0-9](?:\x00|\Z))")
_BE_ENDS = (rb"(?<!\x00[A-Za-z0-9])(?<!\A[A-Za-z0-9])", rb"(?!\x00[A-Za-z0-9])")
_NO_ENDS = (b"", b"")
_SPACES = (" ", "\n", "\r\n", "\t", "\u00a0")
_FULL_WIDTH = 0xFEE0


class Expander(Protocol):
    """Expands a compressed stream step by step."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


@dataclass
class ScanResult:
    """What was found in a file: how often, in which form, and what could not be opened."""

    finds: Counter[str] = field(default_factory=Counter)
    #: By the index of the text among those looked for.
    by_text: Counter[int] = field(default_factory=Counter)
    streams: int = 0
    #: Compressed streams whose contents were not looked at, in full or in part, by kind.
    unopened: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(self.finds.values())

    def add(self, other: ScanResult) -> None:
        self.finds += other.finds
        self.by_text += other.by_text
        self.streams += other.streams
        self.unopened += other.unopened


@dataclass(frozen=True)
class _Pattern:
    form: str
    expression: re.Pattern[bytes]


class ByteScanner:
    """Looks for texts in files and streams."""

    def __init__(self, texts: Sequence[str], *, part: bool = True) -> None:
        """`part`: whether a text may be part of a word. In base64 and hexadecimal digits it may be in any case."""
        self._patterns = [list(_patterns(text, part=part)) for text in texts]
        longest = max((len(text) for text in texts), default=0)
        # The longest form of a character is an escape of both halves of a pair, each with a run of backslashes.
        self._overlap = max(_PROBE_BYTES, longest * 40)

    def scan_file(self, path: Path, on_read: Callable[[int], None] = lambda read: None) -> ScanResult:
        """Return what is in a file; `on_read` is called with the size of each chunk."""

        def open_at(start: int) -> Iterator[bytes]:
            with path.open("rb") as file:
                file.seek(start)
                while data := file.read(CHUNK_BYTES):
                    if not start:  # not what is read once more, to expand it
                        on_read(len(data))
                    yield data

        result = ScanResult()
        self._scan(open_at, result, "", 0)
        return result

    def scan_bytes(self, data: bytes) -> ScanResult:
        result = ScanResult()
        self._scan(_sliced(data), result, "", 0)
        return result

    def holds(self, text: str) -> bool:
        """Return whether a text, such as the name of a file, holds what is looked for."""
        return bool(self.scan_bytes(text.encode("utf-8", "surrogateescape")).total)

    def without(self, text: str) -> str:
        """Return a text with what is looked for cut out of it."""
        data = text.encode("utf-8", "surrogateescape")
        for patterns in self._patterns:
            for pattern in patterns:
                data = pattern.expression.sub("[…]".encode(), data)
        return data.decode("utf-8", "replace")

    def _scan(
        self,
        open_at: Callable[[int], Iterator[bytes]],
        result: ScanResult,
        within: str,
        depth: int,
    ) -> None:
        window, start = b"", 0
        for data in open_at(0):
            window += data
            if len(window) > 2 * self._overlap:
                end = len(window) - self._overlap
                self._scan_window(window, end, start, open_at, result, within, depth)
                window, start = window[end:], start + end
        self._scan_window(window, len(window), start, open_at, result, within, depth)

    def _scan_window(
        self,
        window: bytes,
        end: int,
        start: int,
        open_at: Callable[[int], Iterator[bytes]],
        result: ScanResult,
        within: str,
        depth: int,
    ) -> None:
        """Count what begins before `end`; what follows is looked at with the next window."""
        self._match(window, end, result, within)
        for run in _BASE64_RUN.finditer(window):
            if run.start() >= end:
                break
            self._match_base64(run[0], result, within)
        if depth >= MAX_DEPTH:
            return
        for kind, magic in _MAGICS:
            at = window.find(magic)
            while 0 <= at < end:
                self._expand(kind, window[at : at + _HEADER_BYTES], start + at, open_at, result, depth)
                at = window.find(magic, at + 1)

    def _match(self, window: bytes, end: int, result: ScanResult, within: str) -> None:
        has_hex = _HEX_RUN.search(window) is not None
        for number, patterns in enumerate(self._patterns):
            for pattern in patterns:
                if pattern.form == "hex" and not has_hex:
                    continue
                found = sum(match.start() < end for match in pattern.expression.finditer(window))
                if found:
                    result.finds[within + pattern.form] += found
                    result.by_text[number] += found

    def _match_base64(self, run: bytes, result: ScanResult, within: str) -> None:
        """Look into a run of base64, whichever of its characters the encoded data begins at."""
        known = ScanResult()
        self._match(run, len(run), known, "")
        if known.finds["base64"]:
            return  # counted as a short one
        joined = _LINE_BREAKS.sub(b"", run).translate(_URL_SAFE)
        for skipped in range(4):
            part = joined[skipped:]
            part = part[: len(part) - len(part) % 4]
            try:
                decoded = base64.b64decode(part)
            except (ValueError, binascii.Error):
                continue
            inner = ScanResult()
            self._match(decoded, len(decoded), inner, "")
            if inner.total:
                result.finds[f"{within}base64"] += inner.total
                result.by_text += inner.by_text
                return

    def _expand(
        self,
        kind: str,
        beginning: bytes,
        offset: int,
        open_at: Callable[[int], Iterator[bytes]],
        result: ScanResult,
        depth: int,
    ) -> None:
        skipped, method = (0, kind) if kind != "zip" else _member(beginning)
        if not method:
            return
        try:
            expander = _expander(method)
            if expander is None:
                result.unopened[method] += 1
                return
            # What lies beyond the window is not there yet to be tried.
            beginning = next(open_at(offset), beginning) if len(beginning) < _HEADER_BYTES else beginning
            if not expander.decompress(beginning[skipped : skipped + _PROBE_BYTES], _PROBE_BYTES):
                return
        except Exception:  # every library has errors of its own for what is no such stream
            return
        result.streams += 1
        stopped = [False]

        def expanded(start: int) -> Iterator[bytes]:
            passed = 0
            for data in _expanded(_expander(method), open_at(offset + skipped), stopped):
                if passed + len(data) > start:
                    yield data[max(0, start - passed) :]
                passed += len(data)

        self._scan(expanded, result, "compressed ", depth + 1)
        if stopped[0]:
            result.unopened[f"{method}, the rest of a large one"] += 1


def _expanded(expander: Any, compressed: Iterable[bytes], stopped: list[bool]) -> Iterator[bytes]:
    """Expand a stream until it ends, is damaged, or becomes too large."""
    total = 0
    for data in compressed:
        pending: bytes | None = data
        while pending is not None:
            try:
                out = expander.decompress(pending, CHUNK_BYTES)
            except Exception:  # damaged from here on
                return
            total += len(out)
            if out:
                yield out
            if total > MAX_EXPANDED_BYTES:
                stopped[0] = True
                return
            if getattr(expander, "eof", False):
                return
            if hasattr(expander, "unconsumed_tail"):
                pending = expander.unconsumed_tail or None
            else:
                pending = b"" if not getattr(expander, "needs_input", True) else None


def _member(header: bytes) -> tuple[int, str]:
    """Return where the data of a zip member begins, and how it is compressed; nothing if that is not needed."""
    if len(header) < _ZIP_HEADER.size:
        return 0, ""
    _, _, flags, method, *_, name_length, extra_length = _ZIP_HEADER.unpack_from(header)
    skipped = _ZIP_HEADER.size + name_length + extra_length
    if method == _STORED and not flags & _ENCRYPTED:
        return 0, ""
    known = {_DEFLATED: "deflate", _BZIP2: "bz2", _XZ: "xz", _ZSTD: "zstd"}
    return skipped, "encrypted zip" if flags & _ENCRYPTED else known.get(method, "zip of an unknown method")


def _expander(method: str) -> Any:
    if method in ("gzip", "zlib"):
        return zlib.decompressobj(47)
    if method == "deflate":
        return zlib.decompressobj(-15)
    if method == "bz2":
        return bz2.BZ2Decompressor()
    if method == "xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ)
    if method == "zstd":
        for module in ("compression.zstd", "backports.zstd"):
            try:
                return import_module(module).ZstdDecompressor()
            except ImportError:
                continue
    return None


def _sliced(data: bytes) -> Callable[[int], Iterator[bytes]]:
    def open_at(start: int) -> Iterator[bytes]:
        for at in range(start, len(data), CHUNK_BYTES):
            yield data[at : at + CHUNK_BYTES]

    return open_at


def _patterns(text: str, *, part: bool) -> Iterator[_Pattern]:
    """One expression for each family of encodings. Each alternative begins with a literal byte, for speed."""
    parts = [_variants(part) for part in _characters(text)]
    forms = (("text", _as_text, _TEXT_ENDS), ("utf-16", _utf16_le, _LE_ENDS), ("utf-16", _utf16_be, _BE_ENDS))
    for form, encode, ends in (*forms, ("hex", _as_hex, _NO_ENDS)):
        expression = b"".join(_either(map(encode, variants)) for variants in parts)
        before, after = _NO_ENDS if part else ends
        expression = (before if text[:1].isalnum() else b"") + expression + (after if text[-1:].isalnum() else b"")
        yield _Pattern(form, re.compile(expression, re.DOTALL))
    spelled = dict.fromkeys([text, text.lower(), text.upper(), text.title(), text.capitalize()])
    encoded = dict.fromkeys(chain.from_iterable(_base64_parts(each.encode("utf-8", "replace")) for each in spelled))
    if encoded:
        yield _Pattern("base64", re.compile(b"|".join(map(re.escape, encoded))))


def _characters(text: str) -> list[str]:
    """Split a text into characters with what is combined with them; a run of white space is one of them."""
    found: list[str] = []
    for char in unicodedata.normalize("NFC", " ".join(text.split())):
        if found and unicodedata.combining(char):
            found[-1] += char
        else:
            found.append(char)
    return found


def _variants(part: str) -> list[str]:
    """Return all spellings of a character."""
    if part == " ":
        return list(_SPACES)
    cased = [part, part.lower(), part.upper(), part.title(), part.casefold()]
    wide = [chr(ord(each) + _FULL_WIDTH) for each in cased if len(each) == 1 and "!" <= each <= "~"]
    composed = [unicodedata.normalize(form, each) for each in cased for form in ("NFC", "NFD")]
    return list(dict.fromkeys([*cased, *composed, *wide]))


def _either(alternatives: Iterable[Iterable[bytes]]) -> bytes:
    return b"(?:" + b"|".join(dict.fromkeys(chain.from_iterable(alternatives))) + b")"


def _digits(data: bytes) -> bytes:
    """Hexadecimal digits in either case."""
    return re.sub(rb"[a-f]", lambda digit: b"[%c%c]" % (digit[0][0], digit[0].upper()[0]), data.hex().encode())


def _as_text(variant: str) -> Iterator[bytes]:
    """As UTF-8, escaped as in JSON however often, percent-encoded, or as a numeric entity."""
    plain = variant.encode("utf-8", "surrogatepass")
    yield re.escape(plain)
    if variant in ('"', "\\", "/", "'"):
        yield rb"\\\\*" + re.escape(plain)
    if control := {"\n": b"n", "\r\n": b"r\\\\+n", "\t": b"t"}.get(variant):
        yield rb"\\\\*" + control
    units = variant.encode("utf-16-be", "surrogatepass")
    yield b"".join(rb"\\\\*[uU]" + _digits(units[at : at + 2]) for at in range(0, len(units), 2))
    yield b"".join(b"%(?:25)*" + _digits(bytes([byte])) for byte in plain)
    if variant == " ":
        yield rb"\+"
    yield b"".join(b"&#(?:0*%d|[xX]0*%s);" % (ord(char), _digits_of(ord(char))) for char in variant)


def _digits_of(number: int) -> bytes:
    return re.sub(rb"[a-f]", lambda digit: b"[%c%c]" % (digit[0][0], digit[0].upper()[0]), b"%x" % number)


def _utf16_le(variant: str) -> Iterator[bytes]:
    yield re.escape(variant.encode("utf-16-le", "surrogatepass"))


def _utf16_be(variant: str) -> Iterator[bytes]:
    yield re.escape(variant.encode("utf-16-be", "surrogatepass"))


def _as_hex(variant: str) -> Iterator[bytes]:
    yield _digits(variant.encode("utf-8", "surrogatepass"))


def _base64_parts(data: bytes) -> Iterator[bytes]:
    """The characters that are the same whatever stands before and after, at each of the three alignments."""
    for before in range(3):
        padded = b"\0" * before + data
        usable = padded[: len(padded) - len(padded) % 3]
        encoded = base64.b64encode(usable)[(0, 2, 3)[before] :]
        if len(encoded) >= _MIN_BASE64_CHARS:
            yield encoded
            yield encoded.translate(bytes.maketrans(b"+/", b"-_"))
