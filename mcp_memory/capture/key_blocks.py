"""Private keys as people paste them: PEM, OpenSSH and PGP blocks, whole, cut off at either end, or inside a string."""

from __future__ import annotations

from mcp_memory.capture.marks import mark, replace_spans
from mcp_memory.capture.patterns import lazy

_EDGE = lazy(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BEGIN = lazy(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = lazy(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
#: A block in base 64, as Kubernetes and CI settings hold it; it may be wrapped. Its own first words tell what it is.
_ENCODED = lazy(r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{30,}={0,2}(?:(?:\s|\\[nr]){1,40}[A-Za-z0-9+/]{40,}={0,2})*")
_FIRST_LINE = 72
#: The file of a PuTTY key.
_PUTTY = lazy(r"Private-Lines: \d{1,4}(?:\s|\\[nr])+((?:[A-Za-z0-9+/=]{1,64}(?:\s|\\[nr])+){1,200})")
_RUN = lazy(r"[A-Za-z0-9+/=]{30,}")
_REST = lazy(r"(?:\s|\\[nr])*[A-Za-z0-9+/=]{1,76}(?=\s*\Z)")
#: More than the largest key in use takes, so that two mentions in one source file are not taken for a key.
_LONGEST = 40_000
#: What may stand between two lines of a key: line ends, quotes, line numbers, a header line.
_GAP = 80


def redact_encoded_keys(text: str) -> str:
    """Take out private keys in base 64."""
    spans = [(*block.span(), "private-key") for block in _ENCODED().finditer(text) if _is_encoded_key(block[0])]
    return replace_spans(text, spans)


def redact_key_blocks(text: str) -> str:
    """Take out private keys. The bare words `BEGIN PRIVATE KEY`, with no key behind them, stay."""
    if "Private-Lines: " in text:
        text = replace_spans(text, [(*lines.span(1), "private-key") for lines in _PUTTY().finditer(text)])
    if "PRIVATE KEY" not in text:
        return text
    spans = []
    last = 0
    for edge in _EDGE().finditer(text):
        if edge.start() < last:
            continue
        if edge[1] == "BEGIN":
            start, last = edge.start(), _end_of_key(text, edge.end())
            found = last > edge.end()
        else:
            start, last = _start_of_key(text, last, edge.start()), edge.end()
            found = start < edge.start()
        if found:
            spans.append((start, last, "private-key"))
    return replace_spans(text, spans)


def _is_encoded_key(block: str) -> bool:
    from binascii import Error, a2b_base64

    try:
        return b"PRIVATE KEY" in a2b_base64("".join(block.split())[:_FIRST_LINE])
    except (Error, ValueError):
        return False


def _end_of_key(text: str, start: int) -> int:
    """Where the key that begins here ends; `start` itself if there is none."""
    following = _BEGIN().search(text, start)
    limit = min(start + _LONGEST, following.start() if following else len(text))
    end = _END().search(text, start, limit)
    if end and _is_key(text[start : end.start()]):
        return end.end()
    return _after_runs(text, start, limit)


def _is_key(body: str) -> bool:
    body = body.replace(mark("private-key"), "")
    if len(body) < 400:
        return bool(body.strip(" \t\r\n\\nr\"'`+,;.…"))
    return sum(len(run) for run in _RUN().findall(body)) * 2 > len(body)


def _after_runs(text: str, start: int, limit: int) -> int:
    position = start
    while True:
        run = _RUN().search(text, position, min(position + _GAP + 4096, limit))
        if not run or run.start() > position + _GAP:
            break
        position = run.end()
    rest = _REST().match(text, position) if position > start else None
    return rest.end() if rest else position


def _start_of_key(text: str, floor: int, end: int) -> int:
    """Where the lines of key material that stand before an END without a BEGIN start."""
    start = end
    for run in reversed(list(_RUN().finditer(text, max(floor, end - _LONGEST), end))):
        if run.end() < start - _GAP:
            break
        start = run.start()
    return start
