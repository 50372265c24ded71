"""Secrets that their place tells: entries beside one that names them, lists, tables, SQL, files of a known form.

Each function gives spans of the text. The name of a secret is met by `assignments`; every search is bounded.
"""

from __future__ import annotations

import re

from mcp_memory.capture.redaction.names import NAME_CHARS, Named, classify, start_of_name
from mcp_memory.capture.redaction.values import (
    is_code,
    is_literal,
    is_mixed,
    is_part,
    is_path,
    is_random,
    is_reference,
    is_strong,
    is_value,
)
from mcp_memory.capture.settings import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Span = tuple[int, int, str]

_QUOTES = " \t\"'\\"
#: How far from a name the entry may stand that holds its value.
_FAR = 1_400
_ITEMS = 200
#: How many words `value` are looked at before a name: the value itself may hold one.
_TRIES = 3
_NAME = lazy(r"[\w-]{0,120}", re.ASCII)
#: What an entry is called whose value is a name, and one whose value belongs to it. Terraform writes them with `=`.
_LABELS = ("name", "key", "field", "variable", "parameter")
_VALUE = lazy(
    r"""(?<![\w-]) (?:[A-Za-z]{0,20}[vV]alue|VALUE|[dD]efault|SecretString)
        \\{0,7}["']? [ \t]{0,20} [:=] \s{0,20}
        (?: (?P<quote>["']) (?P<quoted>(?:\\.|(?!(?P=quote))[^\\\r\n]){1,1024})
          | \\{1,7}["'] (?P<escaped>[^\\\r\n"']{1,1024}) | (?P<bare>[^\s"'`<>\\,{}\[\]]{1,256}) )""",
    re.X | re.ASCII,
)
_OPENS = lazy(r"""[\w-]{2,60} \\{0,7}["']? \s{0,4} [:=]? \s{0,4} \{""", re.X | re.ASCII)
#: What may stand between two entries that follow each other: in lines, in brackets, as attributes.
_NEXT_ENTRY = lazy(r"""[\w-]{2,60} \\{0,7}["']? [ \t]{0,4} ,? \s{0,60} \\{0,7}["']? (?=[vV]alue)""", re.X | re.ASCII)
_LAST_ENTRY = lazy(r"""\\{0,7}["']? [ \t]{0,4} ,? \s{0,60} \\{0,7}["']? \Z""", re.X)


def paired(text: str, position: int) -> list[Span]:
    """The value that stands in an entry behind or before the one that holds the name, or in the object of that name."""
    start = start_of_name(text, position)
    named = classify(_NAME().match(text, start)[0])  # type: ignore[index]  # it matches nothing at all, too
    if not named.kind or is_strong(text[start:position]):  # the end of an id may sound like a name
        return []
    opening = _OPENS().match(text, position)
    if opening:
        return _held(_VALUE().search(text, opening.end(), _edge(text, opening.end())), named)
    # What is looked for here is rare: names stand everywhere, but seldom as the value of `name` or `key`. The name may
    # be the end of a path.
    before = text[max(0, start - 120) : start].rstrip(NAME_CHARS + "./").rstrip(_QUOTES)
    label = before[:-1].rstrip(_QUOTES) if before[-1:] in (":", "=") else ""
    if not label.lower().endswith(_LABELS):
        return []
    first = max(text.rfind("{", max(0, start - _FAR), start), text.rfind("}", max(0, start - _FAR), start))
    if first >= 0 and text[first] == "{" and text[first - 1 : first] != "$":
        found = _held(_VALUE().search(text, position, _edge(text, position)), named)
        found = found or _held(_VALUE().search(text, first, start), named)
        if found:
            return found
    # The entry right behind the name, or right before the one that holds it.
    behind = _NEXT_ENTRY().match(text, position)
    if behind:
        return _held(_VALUE().match(text, behind.end()), named)
    edge = start
    for _ in range(_TRIES):
        edge = text.rfind("alue", max(0, start - _FAR), edge)
        value = _VALUE().match(text, edge - 1, start) if edge > 0 else None
        if value:
            between = text[value.end() : start].rstrip(NAME_CHARS + "./").rstrip(_QUOTES + ":=").rstrip(NAME_CHARS)
            return _held(value, named) if _LAST_ENTRY().match(between) else []
    return []


def _edge(text: str, position: int) -> int:
    """Where the object ends, or another one begins in it."""
    edges = [text.find(char, position, position + _FAR) for char in "{}"]
    return min([edge for edge in edges if edge >= 0], default=position)


def _held(found: re.Match[str] | None, named: Named) -> list[Span]:
    group = (found and found.lastgroup) or ""
    return [(*found.span(group), named.kind)] if found and is_value(found[group], named) else []


#: An item of a list in brackets, and what ends it; the text may itself stand in a string, with escaped lines.
_ITEM = lazy(
    r"""(?:\s|\\{1,7}[nrt]){0,60}
        (?: (?P<quote>["'`]) (?P<quoted>(?:\\.|(?!(?P=quote))[^\\\r\n]){1,1024})
          | \\{1,7}["'] (?P<escaped>(?:(?!\\{1,7}["'])[^\r\n]){1,1024})
          | (?P<bare>[^\s"'`<>\\,\[\]{}()]{1,256}) )""",
    re.X | re.ASCII,
)
_AND = lazy(r"""[\w+/=~-]{0,4096} \\{0,7}["'`]? (?:\s|\\{1,7}[nrt]){0,60} ,""", re.X | re.ASCII)
#: A line of a list in YAML that holds nothing but one value.
_LINE = lazy(
    r"""(?:\r?\n[ \t]{0,40})? -[ \t]{1,8}
        (?: (?P<quote>["']) (?P<quoted>(?:(?!(?P=quote))[^\\\r\n]){1,1024}) (?P=quote)
          | (?P<bare>[^\s"'`<>\\,\[\]{}#][^\s"'`<>\\]{0,1023}(?<!:)) )
        (?= [ \t]{0,8} (?:[ ]\#[^\r\n]{0,200})? (?:\r?\n|\Z) )""",
    re.X | re.ASCII,
)


def listed(text: str, first: int, named: Named) -> list[Span]:
    """The secrets among the items of the list that begins here, with a bracket or with the dash of its first line."""
    if not named.kind:
        return []
    spans = []
    in_lines = text[first] == "-"
    position = first if in_lines else first + 1
    for _ in range(_ITEMS):
        item = (_LINE() if in_lines else _ITEM()).match(text, position)
        if not item:
            break
        group = item.lastgroup or ""
        value = item[group]
        if group == "bare":  # it may be a word of talk, or an expression
            told = (is_mixed(value) or is_random(value)) and not is_code(value)
        else:
            told = not any(map(str.isspace, value))
        if told and is_value(value, named):
            spans.append((*item.span(group), named.kind))
        if in_lines:
            comment = text.find("\n", item.end())
            position = comment - (text[comment - 1 : comment] == "\r") if comment >= 0 else len(text)
        else:
            further = _AND().match(text, item.end())
            if not further:
                break
            position = further.end()
    return spans


#: What a plan of changes shows behind the old value, and how code goes on with another part of it. Strings that stand
#: side by side are one.
_CHANGED = lazy(r"""["'] [ ] -> [ ] ["'] ([^"'\r\n]{1,1024})""", re.X)
_CONTINUED = lazy(
    r"""["'] (?: \s{0,60} (?:\+{1,2}|\.{1,2}|&|<>) \s{0,60} | [ ]if[ ][^\r\n"']{1,60}[ ]else[ ]
             | [ \t]{0,4} \\? \r?\n [ \t]{1,60} | (?=["'][^\s"']{3,1024}["']) )
        [bBrRuUfFL@]{0,2} ["'] ([^"'\\\r\n]{1,1024})""",
    re.X,
)
#: Further lines of a string with one word each, the end of a line that goes on in the next one, and what stands behind
#: a sign at which a bare value seems to end.
_FURTHER = lazy(r"(?:\\?\r?\n[ \t]{0,40}[^\s\"'`\\]{1,512}){1,40}(?=[\"'`])")
_WRAPPED = lazy(r"\\\r?\n[^\s\"'`<>\\]{1,256}")
_GLUED = lazy(r"[\"'`<>\\](?<!\\(?=[nrt]|u[\da-fA-F]{4}))[^\s\"'`<>\\,;:(){}\[\]=/][^\s\"'`<>\\,;:(){}\[\]=]{3,255}")
_STOPS = ("'", '"', "`", "<", ">", "\\", "\r", "\n")


def continued(text: str, span: Span) -> list[Span]:
    """The secret to its very end, its further parts, and the one that a plan of changes puts in its place."""
    start, end, kind = span
    quoted = text[start - 1 : start] in ("'", '"', "`")
    for _ in range(20):
        if text[end : end + 1] not in _STOPS:
            break
        more = (_FURTHER() if quoted else _WRAPPED()).match(text, end)
        if not more and not quoted:
            more = _GLUED().match(text, end)
            more = more if more and is_part(more[0][1:]) else None
        if not more:
            break
        end = more.end()
    spans = [(start, end, kind)]
    for _ in range(20):
        more = _CHANGED().match(text, spans[-1][1]) or _CONTINUED().match(text, spans[-1][1])
        if not more or is_reference(more[1]):
            break
        spans.append((*more.span(1), kind))
    return spans


#: What may separate the cells of a line; the last ones also stand at its ends.
_BARS = "|│┃║"
_SEPARATORS = ",;\t" + _BARS
_LONGEST_HEADER = 400
_LONGEST_LINE = 4_000
_ROWS = 1_000
#: After so many rows without a secret the rest is not read: every line of a long text might head a table.
_MISSES = 5
_SHORTEST_KEY = 12
#: Lines of a table that only draw it.
_RULE = lazy(r"[-+|:= \t\u2500-\u257f]+\Z")
_HEADING = lazy(r"[A-Za-z_][\w .@/-]{0,40}\Z", re.ASCII)
_HEADING_CHARS = NAME_CHARS + " \"'`*"
#: The heading of a column beside which a plain word in the other one is a password.
_BESIDE = lazy(r"(?:user|login|e-?mail|account|host|url|server|service|name|id)(?:[ _-]?(?:name|id|address))?\Z", re.I)
#: A cell in quotes holds separators, too.
_QUOTED_CELL = lazy(r'[ ]*"((?:[^"\r\n]|"")*)"[ ]*(?=[,;\t]|\Z)')


def column(text: str, start: int, end: int) -> list[Span]:
    """The secrets below the name that stands from `start` to `end`, if it heads a column."""
    # What separates the name from its neighbour in the line; before it may stand more of the heading.
    separator = text[end : end + 40].lstrip(" \"'`*")[:1]
    if not separator or separator not in _SEPARATORS:
        before = text[max(0, start - 40) : start].rstrip(_HEADING_CHARS)[-1:]
        separator = before if before in _SEPARATORS and separator in ("", "\r", "\n") else ""
    first = text.rfind("\n", max(0, start - _LONGEST_HEADER), start) + 1
    last = text.find("\n", end, end + _LONGEST_HEADER)
    if not separator or last < 0 or start - first > _LONGEST_HEADER:
        return []
    heads = [head.strip(" \"'`*\r") for head in text[first:last].split(separator)]
    titles = [head for head in heads if head] if separator in _BARS else heads
    if len(titles) < 2 or not all(map(_HEADING().match, titles)):
        return []
    index = text.count(separator, first, start)
    named = classify("_".join(heads[index].split()))
    if not named.kind:
        return []
    plain = any(map(_BESIDE().match, heads))
    spans: list[Span] = []
    for row, (at, cell) in enumerate(_cells(text, last + 1, separator, len(heads), index)):
        secret = is_value(cell, named) and not any(map(str.isspace, cell))
        if secret and named.kind == "password":
            secret = plain or is_random(cell)
        elif secret:
            secret = len(cell) >= _SHORTEST_KEY and is_random(cell)
        if secret:
            spans.append((at, at + len(cell), named.kind))
        elif row > _MISSES and not spans:
            break  # a table of something else
    return spans


def _cells(text: str, position: int, separator: str, count: int, index: int) -> Iterator[tuple[int, str]]:
    """Where the cell of this index begins in each line of the table, and what it holds."""
    for _ in range(_ROWS):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        line = text[position : min(end, position + _LONGEST_LINE)].rstrip("\r")
        if not _RULE().match(line):
            cells = _split(line, separator)
            if len(cells) != count:
                return
            yield position + cells[index][0], cells[index][1]
        if end >= len(text):
            return
        position = end + 1


def _split(line: str, separator: str) -> list[tuple[int, str]]:
    """The cells of a line, without quotes and the space around them, each with its place."""
    cells = []
    position = 0
    while position <= len(line):
        quoted = _QUOTED_CELL().match(line, position) if separator not in _BARS else None
        end = quoted.end() if quoted else line.find(separator, position)
        end = len(line) if end < 0 else end
        cell = line[position:end]
        bare = (position + len(cell) - len(cell.lstrip(" `")), cell.strip(" `"))
        cells.append((quoted.start(1), quoted[1]) if quoted else bare)
        position = end + 1
    return cells


_INSERT = lazy(r"insert\s{1,9}into\s{1,9}[\w.\"`\[\]]{1,120}\s{0,9}\(([^()]{1,2000})\)\s{0,9}values\s{0,9}", re.I)
_FIELD = lazy(r"""\s{0,9}(?:'((?:[^'\\]|''|\\.){0,1024})'|"((?:[^"\\]|\\.){0,1024})"|[^,()'"]{0,200})\s{0,9}([,)])""")
_NEXT_ROW = lazy(r"\s{0,40},?\s{0,40}\(")


def inserted(text: str, low: str) -> Iterator[Span]:
    """The values that SQL inserts into columns with a secret's name. `low` is the text in lower case."""
    position = low.find("insert")
    while position >= 0:
        found = _INSERT().match(text, position)
        position = low.find("insert", position + 1)
        names = [classify(name.strip(" \t\r\n\"'`[]")) for name in found[1].split(",")] if found else []
        row = _NEXT_ROW().match(text, found.end()) if found and any(named.kind for named in names) else None
        for _ in range(_ROWS):
            if not row:
                break
            at = row.end()
            for named in names:
                field = _FIELD().match(text, at)
                if not field:
                    break
                group = 1 if field[1] is not None else 2 if field[2] is not None else 0
                if named.kind and group and is_value(field[group], named):
                    yield (*field.span(group), named.kind)
                at = field.end()
            row = _NEXT_ROW().match(text, at) if field else None


#: A line of .pgpass: host, port, database, user, password. It is looked for from the first colon on.
_PGPASS = lazy(
    r""":(?P<port>\*|\d{4,5}) :(?:\*|[A-Za-z_][\w-]{0,62}) :(?:\*|[A-Za-z_][\w.@-]{0,62})
        :(?P<password>(?:\\[:\\]|[^\s:\\"'`]){3,256}) (?=[\s"'`]|\\[nr]|\Z)""",
    re.X | re.ASCII,
)
#: The host begins a line, or stands behind a space, a quote or a line's number.
_HOST = lazy(
    r"""(?:\A|[\s"'`→]|\\n) (?:\*|/[\w./-]{1,80}|[A-Za-z][A-Za-z0-9.-]{0,80}|\d{1,3}(?:\.\d{1,3}){3}) \Z""",
    re.X | re.ASCII,
)


def pgpass(text: str) -> Iterator[Span]:
    """The passwords in lines of .pgpass."""
    sure = "pgpass" in text
    for line in _PGPASS().finditer(text):
        value, before = line["password"], text[max(0, line.start() - 84) : line.start()]
        if not is_literal(value) or is_path(value) or not _HOST().search(before):
            continue
        if sure or line["port"] in ("5432", "*") or is_random(value):
            yield (*line.span("password"), "password")


_KIND = lazy(r"""\bkind\\{0,7}["']?:\s{0,20}\\{0,7}["']?Secret(?![\w-])""")
#: A document of YAML ends where the next one begins.
_DOCUMENT = lazy(r"(?:\A|\n)---[ \t]*(?=\r?\n)")
_HEAD = lazy(r"(?m)^(?P<indent>[ \t]*(?:-[ ])?)(?P<part>stringData|data):[ \t]*\r?$")
_SETTING = lazy(r"""[ \t]*[\w.-]{1,253}:[ \t]+(?P<quote>["']?)(?P<value>[^\s"'|>][^\r\n"']*?)(?P=quote)[ \t]*\r?\Z""")
_BLOCK = lazy(r"[ \t]*[\w.-]{1,253}:[ \t]+[|>][+-]?\d?[ \t]*\r?\Z")
_OBJECT = lazy(r"""(?P<part>stringData|data)\\{0,7}":\s{0,20}\{(?P<entries>[^{}]{1,100000})\}""")
_JSON_ENTRY = lazy(r"""\\{0,7}"[\w.-]{1,253}\\{0,7}":\s{0,20}\\{0,7}"(?P<value>[^"\\\r\n]{1,100000})""")
_BASE_64 = lazy(r"[A-Za-z0-9+/]{3,}={0,2}\Z")


def manifests(text: str) -> Iterator[Span]:
    """The values of every Secret of Kubernetes. Of `data`, which other kinds have as well, only what is in base 64."""
    first = 0
    for last in [*(found.start() for found in _DOCUMENT().finditer(text)), len(text)]:
        if _KIND().search(text, first, last):
            yield from _settings(text, first, last)
            for entries in _OBJECT().finditer(text, first, last):
                for entry in _JSON_ENTRY().finditer(text, *entries.span("entries")):
                    if _is_data(entry["value"], entries["part"]):
                        yield (*entry.span("value"), "secret")
        first = last


def _settings(text: str, first: int, last: int) -> Iterator[Span]:
    for head in _HEAD().finditer(text, first, last):
        block = -1  # how far the block of text is indented whose lines come now
        following = head.end() + 1
        while following < last:
            position, end = following, text.find("\n", following, last)
            end = last if end < 0 else end
            line, following = text[position:end], end + 1
            indent = len(line) - len(line.lstrip(" \t"))
            if not line.strip():
                continue
            if indent <= len(head["indent"]):  # no longer below it
                break
            if indent > block >= 0:
                yield position + indent, position + len(line.rstrip()), "secret"
                continue
            block = indent if _BLOCK().match(line) else -1
            entry = _SETTING().match(line)
            if entry and _is_data(entry["value"], head["part"]):
                yield position + entry.start("value"), position + entry.end("value"), "secret"


def _is_data(value: str, under: str) -> bool:
    return not is_reference(value) and (under == "stringData" or bool(_BASE_64().match(value)))


_FIELD_CHARS = 400
_FIELD_VALUE = lazy(
    r"""(?<![\w-])(?:default)?value=\\{0,3}
        (?: (?P<quote>["'])(?P<quoted>[^"'<>\r\n\\]{3,256}) | (?P<bare>[^\s"'<>\\/]{3,256}) )""",
    re.X | re.I,
)


def typed_fields(text: str, low: str) -> Iterator[Span]:
    """What fields for passwords hold: `<input type="password" value="…">`. `low` is the text in lower case."""
    position = low.find("password")
    while position >= 0:
        if low[max(0, position - 9) : position].rstrip("\\\"'").endswith("type="):
            first = low.rfind("<", max(0, position - _FIELD_CHARS), position)
            last = low.find("<", position, position + _FIELD_CHARS)
            last = min(len(text), position + _FIELD_CHARS) if last < 0 else last
            found = _FIELD_VALUE().search(text, first, last) if first >= 0 else None
            value = found[found.lastgroup or ""] if found else ""
            if found and is_literal(value) and not is_code(value):
                yield (*found.span(found.lastgroup or ""), "password")
        position = low.find("password", position + 1)
