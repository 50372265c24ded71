"""Secrets of Kubernetes: whatever stands under `data` in an object of the kind `Secret`, in YAML and in JSON."""

from __future__ import annotations

from mcp_memory.capture.marks import replace_spans
from mcp_memory.capture.patterns import lazy
from mcp_memory.capture.secret_values import is_reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Span = tuple[int, int, str]

_KIND = lazy(r"""\bkind\\{0,7}["']?:\s{0,20}\\{0,7}["']?Secret(?![\w-])""")
#: A document of YAML ends where the next one begins.
_DOCUMENT = lazy(r"(?:\A|\n)---[ \t]*(?=\r?\n)")
_HEAD = lazy(r"(?m)^(?P<indent>[ \t]*(?:-[ ])?)(?P<part>stringData|data):[ \t]*\r?$")
_ENTRY = lazy(r"""[ \t]*[\w.-]{1,253}:[ \t]+(?P<quote>["']?)(?P<value>[^\s"'|>][^\r\n"']*?)(?P=quote)[ \t]*\r?\Z""")
_BLOCK = lazy(r"[ \t]*[\w.-]{1,253}:[ \t]+[|>][+-]?\d?[ \t]*\r?\Z")
_OBJECT = lazy(r"""(?P<part>stringData|data)\\{0,7}":\s{0,20}\{(?P<entries>[^{}]{1,100000})\}""")
_JSON_ENTRY = lazy(r"""\\{0,7}"[\w.-]{1,253}\\{0,7}":\s{0,20}\\{0,7}"(?P<value>[^"\\\r\n]{1,100000})""")
_BASE_64 = lazy(r"[A-Za-z0-9+/]{3,}={0,2}\Z")


def redact_manifests(text: str) -> str:
    """Take out the values of every Secret. Of `data`, which other kinds have as well, only what is in base 64."""
    spans: list[Span] = []
    first = 0
    for last in [*(found.start() for found in _DOCUMENT().finditer(text)), len(text)]:
        if _KIND().search(text, first, last):
            spans += _in_lines(text, first, last)
            spans += _in_objects(text, first, last)
        first = last
    return replace_spans(text, spans)


def _in_lines(text: str, first: int, last: int) -> Iterator[Span]:
    for head in _HEAD().finditer(text, first, last):
        block = -1  # how far the block of text is indented whose lines come now
        for position, line in _lines_below(text, head.end() + 1, last, len(head["indent"])):
            indent = len(line) - len(line.lstrip(" \t"))
            if indent > block >= 0:
                yield position + indent, position + len(line.rstrip()), "secret"
                continue
            block = indent if _BLOCK().match(line) else -1
            entry = _ENTRY().match(line)
            if entry and _is_value(entry["value"], head["part"]):
                yield position + entry.start("value"), position + entry.end("value"), "secret"


def _lines_below(text: str, position: int, last: int, indent: int) -> Iterator[tuple[int, str]]:
    """The lines that are indented deeper, each with its place."""
    while position < last:
        end = text.find("\n", position, last)
        end = last if end < 0 else end
        line = text[position:end]
        if line.strip():
            if len(line) - len(line.lstrip(" \t")) <= indent:
                return
            yield position, line
        position = end + 1


def _in_objects(text: str, first: int, last: int) -> Iterator[Span]:
    for entries in _OBJECT().finditer(text, first, last):
        for entry in _JSON_ENTRY().finditer(text, *entries.span("entries")):
            if _is_value(entry["value"], entries["part"]):
                yield (*entry.span("value"), "secret")


def _is_value(value: str, under: str) -> bool:
    return not is_reference(value) and (under == "stringData" or bool(_BASE_64().match(value)))
