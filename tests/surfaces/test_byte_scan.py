"""Texts are found in raw bytes however they are written, encoded or packed, and nothing else is."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import random
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_memory.surfaces.byte_scan import CHUNK_BYTES, ByteScanner

TEXT = "Quagga Übung"
#: Letters that are not as anyone would write them.
ODD = "qUaGGa üBuNG"
NOISE = random.Random(7).randbytes(80)


def zipped(text: str, method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("word/document.xml", "<w:t>Nothing much.</w:t>" * 50 + text)
    return buffer.getvalue()


FORMS: dict[str, Callable[[str], bytes]] = {
    "UTF-8": str.encode,
    "UTF-16 LE": lambda text: text.encode("utf-16-le"),
    "UTF-16 BE": lambda text: text.encode("utf-16-be"),
    "decomposed": lambda text: text.replace("Ü", "U\u0308").replace("ü", "u\u0308").encode(),
    "full width": lambda text: text.replace("Q", "Ｑ").replace("q", "ｑ").encode(),
    "over a line end": lambda text: text.replace(" ", "\r\n").encode(),
    "JSON": lambda text: json.dumps(text).encode(),
    "JSON within JSON": lambda text: json.dumps(json.dumps({"text": text})).encode(),
    "JSON over a line end": lambda text: json.dumps(json.dumps(text.replace(" ", "\n"))).encode(),
    "URL": lambda text: urllib.parse.quote(text).encode(),
    "URL with plus": lambda text: urllib.parse.quote_plus(text).encode(),
    "entities": lambda text: "".join(f"&#x{ord(char):x};" for char in text).encode(),
    "hex": lambda text: text.encode().hex().encode(),
    "hex in capitals": lambda text: text.encode().hex().upper().encode(),
    "base64": lambda text: base64.b64encode(b"k" * 30 + text.encode() + b"k" * 30),
    "base64, second place": lambda text: base64.b64encode(b"k" * 31 + text.encode() + b"k" * 30),
    "base64, third place": lambda text: base64.b64encode(b"k" * 32 + text.encode() + b"k" * 30),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(b"\xff\xfe" * 20 + text.encode() + b"\xff" * 9),
    "base64 in lines": lambda text: base64.encodebytes(b"k" * 51 + text.encode() + b"k" * 60),
    "gzip": lambda text: gzip.compress(b"k" * 99 + text.encode()),
    "zlib": lambda text: zlib.compress(b"k" * 99 + text.encode()),
    "bz2": lambda text: bz2.compress(text.encode()),
    "xz": lambda text: lzma.compress(b"k" * 999 + text.encode()),
    "deflate in a zip file": lambda text: zipped(text, zipfile.ZIP_DEFLATED),
    "bz2 in a zip file": lambda text: zipped(text, zipfile.ZIP_BZIP2),
    "a wheel in a gzip file": lambda text: gzip.compress(zipped(text, zipfile.ZIP_DEFLATED)),
    "UTF-16 in zlib": lambda text: zlib.compress(text.encode("utf-16-le")),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("written", [TEXT, ODD], ids=["as given", "in odd case"])
def test_a_text_is_found_in_every_form_and_case(form: str, written: str) -> None:
    scanner = ByteScanner([TEXT])
    assert scanner.scan_bytes(NOISE + FORMS[form](written) + NOISE).total >= 1
    assert scanner.scan_bytes(NOISE + FORMS[form](written.replace("g", "x").replace("G", "X")) + NOISE).total == 0


def test_short_texts_are_found_in_base64_in_the_usual_cases() -> None:
    scanner = ByteScanner(["quagga"])
    for before in ("", "a", "ab"):
        for written in ("quagga", "QUAGGA", "Quagga"):
            assert scanner.scan_bytes(base64.b64encode(f"{before}{written}yy".encode())).total == 1


def test_a_text_that_lies_over_the_end_of_a_chunk_is_found_once(tmp_path: Path) -> None:
    path = tmp_path / "large"
    for at in range(CHUNK_BYTES - 8, CHUNK_BYTES + 2, 3):
        path.write_bytes(b"x" * at + b"QUAGGA" + b"y" * CHUNK_BYTES)
        assert ByteScanner(["quagga"]).scan_file(path).finds == {"text": 1}


def test_a_stream_that_begins_in_one_chunk_and_ends_in_another_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "large"
    packed = gzip.compress(random.Random(1).randbytes(CHUNK_BYTES).hex().encode() + b"quagga")
    assert b"quagga" not in packed
    path.write_bytes(b"x" * (CHUNK_BYTES - 5) + packed)
    found = ByteScanner(["quagga"]).scan_file(path)
    assert (found.finds, found.streams) == ({"compressed text": 1}, 1)


def test_what_cannot_be_opened_is_reported() -> None:
    found = ByteScanner(["quagga"]).scan_bytes(b"7z\xbc\xaf\x27\x1c" + NOISE)
    assert (found.total, found.unopened) == (0, {"7z": 1})


def test_each_text_is_counted_by_itself() -> None:
    found = ByteScanner(["quagga", "zebra", "horse"]).scan_bytes(b"a zebra, a Zebra and a quagga")
    assert found.by_text == {0: 1, 1: 2}


def test_texts_are_cut_out_of_names() -> None:
    scanner = ByteScanner(["Project Quagga"])
    assert scanner.without("/home/ada/Project%20quagga/notes.md") == "/home/ada/[…]/notes.md"
    assert scanner.without("/home/ada/notes.md") == "/home/ada/notes.md"


def test_whole_words_end_where_no_letter_or_digit_follows() -> None:
    scanner = ByteScanner(["PIER-31"], part=False)
    for held in ("see PIER-31.", "\npier-31\n", '"\\nPIER-31\\n"', "x=%20PIER-31&", "(PIER-31)"):
        assert scanner.scan_bytes(held.encode()).total == 1
    for encoding in ("utf-16-le", "utf-16-be"):
        assert scanner.scan_bytes("see PIER-31.".encode(encoding)).total >= 1
    for other in ("PIER-310", "XPIER-31", "aPIER-31b"):
        assert scanner.scan_bytes(other.encode()).total == scanner.scan_bytes(other.encode("utf-16-be")).total == 0
        assert ByteScanner(["PIER-31"]).scan_bytes(other.encode()).total == 1
