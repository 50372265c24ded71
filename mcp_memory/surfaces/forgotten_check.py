"""`doctor --forgotten`: look whether anything that was forgotten is there again. Nothing is erased or repaired."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mcp_memory import config
from mcp_memory.domain.text import same_letters
from mcp_memory.errors import UsageError
from mcp_memory.store.sql.returned import Returned
from mcp_memory.surfaces import output
from mcp_memory.surfaces.byte_scan import ByteScanner
from mcp_memory.surfaces.doctor import diagnosis_of
from mcp_memory.surfaces.forget_proof import Survey, is_about, load_report, survey

#: Texts that are read from standard input, and the longest line of them.
_MAX_TEXTS, _MAX_CHARS = 200, 10_000


def check_forgotten(options: argparse.Namespace) -> int:
    """Compare the events with what is refused, and look for texts in all files; 1 if anything is found."""
    if not options.forgotten:
        raise UsageError("--match and --report belong to --forgotten: mcp-memory doctor --forgotten --match -")
    if options.repair:
        raise UsageError("--forgotten only looks and changes nothing: run `mcp-memory doctor --repair` by itself.")
    settings = config.load()
    report = load_report(Path(options.report)) if options.report else None
    texts = _texts() if options.match else []
    if report is not None and not texts:
        raise UsageError("--report compares texts with a report: give them with --match -, one a line.")
    known = [text for text in texts if report is not None and is_about(report, text)]
    if report is not None and not known:
        raise UsageError(f"{options.report} is about another deletion: none of the texts is what was asked there.")
    with output.spinner("Examining", enabled=not options.json):
        returned = diagnosis_of(settings).returned()
    found = None
    if texts:
        with output.progress("Looking through all files", enabled=not options.json, unit=output.BYTES) as meter:
            found = survey(settings, texts, meter)
    is_clean = not (returned.stored or returned.key_lost)
    if found is not None:
        is_clean = is_clean and not found.total and not any(file.unread for file in found.files)
    if options.json:
        output.document(_shape(returned, found, ByteScanner(texts), len(texts), len(known), is_clean=is_clean))
    else:
        output.text("\n".join(_lines(returned, found, ByteScanner(texts), len(texts), len(known))))
    return 0 if is_clean else 1


def _texts() -> list[str]:
    lines = [line[:_MAX_CHARS] for line in sys.stdin.read().splitlines()]
    texts = [line.strip() for line in lines if same_letters(line)]
    if not texts:
        raise UsageError("There is no text on standard input: give one on each line.")
    if len(texts) > _MAX_TEXTS:
        raise UsageError(f"There are {len(texts)} texts on standard input: give {_MAX_TEXTS} at most.")
    return texts


def _shape(
    returned: Returned, found: Survey | None, scanner: ByteScanner, texts: int, known: int, *, is_clean: bool
) -> dict[str, Any]:
    shape: dict[str, Any] = {"ok": is_clean, "refused": returned.refused, "stored_again": returned.stored}
    shape |= {"runs": returned.runs, "key_lost": returned.key_lost}
    if found is None:
        return shape
    return shape | {"texts": texts, "in_report": known, "found": found.shape(scanner)}


def _lines(returned: Returned, found: Survey | None, scanner: ByteScanner, texts: int, known: int) -> list[str]:
    lines = [
        f"{returned.refused:,} events were forgotten in {returned.runs:,} runs. "
        f"{returned.stored:,} events that fall under them are stored again."
    ]
    if returned.key_lost:
        lines.append(
            "Some could not be compared, since the key in inbox.db is lost: look for the texts with --match -."
        )
    if returned.stored:
        lines.append("Forget them again: `mcp-memory forget`, by session, project or text.")
    if known:
        lines.append(f"{known:,} of {texts:,} texts is what the report says was forgotten.")
    if found is not None:
        size = sum(file.size for file in found.files)
        lines.append(f"{found.total:,} finds of {texts:,} texts in {len(found.files):,} files ({size:,} bytes).")
        shape = found.shape(scanner)
        lines += [f"  {file['name']}: {file['finds']:,} finds" for file in shape["files"] if file["finds"]]
        lines += [
            f"  {file['name']} was not read in full: {file['not_read']}"
            for file in shape["files"]
            if "not_read" in file
        ]
        lines += [f"  {kind}: {count:,} finds" for kind, count in shape["kinds"].items()]
        lines += [f"  {name} index: {count:,} documents" for name, count in shape["indexes"].items() if count]
    return lines
