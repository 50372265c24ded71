"""Taking secrets out of texts before they reach the disk, for the hook and for every importer.

`values` has the table of rules and judges values, `names` judges names, `assignments` reads what follows a name,
`structures` what its place tells. Here they are put to work: what they find is replaced by a mark of its kind. A rule
is looked at only when the text holds one of its triggers; most texts hold none.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mcp_memory.capture.characters import IGNORABLE
from mcp_memory.capture.redaction.assignments import assigned, foreign
from mcp_memory.capture.redaction.names import (
    FOREIGN,
    NOT_SECRET,
    OPENING,
    TALK,
    WORDS,
    Named,
    beyond_ascii,
    classify,
    name_of_list,
)
from mcp_memory.capture.redaction.structures import inserted, manifests, pgpass, typed_fields
from mcp_memory.capture.redaction.values import (
    PREFIXED,
    RULES,
    SHORTEST,
    Clean,
    is_field,
    is_reference,
    is_strong,
    is_value,
)
from mcp_memory.capture.settings import lazy

__all__ = ["Clean", "redact", "redact_json"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from mcp_memory.capture.redaction.values import Verdict

    Span = tuple[int, int, str]
    _Sought = tuple[str, str, Callable[[], re.Pattern[str]], Verdict]

#: A mark can end a word that hid the next secret, so what was changed is looked through again; text that was made to
#: need it over and over is not worth the time, the less the longer it is.
_PASSES, _FEW = 8, 3
_LONG = 20_000
#: Up to this length results are kept: names, paths and versions come again with every event.
_SHORT = 120

_INVISIBLE = lazy("[" + IGNORABLE + "]")
_SPLIT = lazy("(?<=[!-~])[" + IGNORABLE + "]+(?=[!-~])")
#: `<private>` in any spelling: spaced, escaped, full-width.
_PRIVATE = lazy(
    r"""(?:[<\uff1c]|&(?:lt|\#0{0,5}60|\#x0{0,5}3c);|\\u003c|\\x3c|%3c) \s{0,9} ((?:/|\uff0f|%2f)?) \s{0,9} private
        (?:\s+[\w:-]{1,40}=[^<>\\&]{0,100})? \s{0,9} (?:[>\uff1e]|&(?:gt|\#0{0,5}62|\#x0{0,5}3e);|\\u003e|\\x3e|%3e)""",
    re.I | re.X,
)

#: A short prefix must not be the end of a word, unless what stands before is an escape: \n, %3D or a colour.
_BEFORE = (
    r"(?:(?<![A-Za-z0-9]{1})|(?<=\\[nrtbf]{1})|(?<=%[0-9A-Fa-f][0-9A-Fa-f]{1})|(?<=[\[;]\dm{1})|(?<=[\[;]\d\dm{1}))"
)
#: From this length on a prefix is found inside words, too: no word holds it.
_DISTINCT = 6
#: What is as long as the shortest of these keys, and of their characters, is rare: only that is looked through.
_RUN = b"a" * SHORTEST
_FLAT = bytes(97 if code < 128 and (chr(code).isalnum() or chr(code) in "_.-") else 32 for code in range(256))
BASE_64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
#: What most of a text is made of. Without it a text is an eighth as long; if it holds a trigger, what is left of it
#: holds what is left of the trigger, which is faster to rule out.
_COMMON = b" \n\t\"'`(),/:;|+>*#%[]{}3456789abcdefghilmnopqrstuvw"
#: What may go on behind the part of a value that a pattern takes at most.
_REST = lazy(r"[\w+/=~-]*", re.ASCII)
_PIPE = 400
#: Less than a pattern reaches from a command to its option.
_REACH = 280
_BREAK = lazy(r"[\r\n|;&]")


def _sought(section: str, flags: int = re.ASCII) -> list[_Sought]:
    """The rules of a section by trigger: that, the kind, the pattern and the verdict."""
    found = []
    for kind, triggers, body, verdict in RULES[section]:
        shared = lazy(body, flags)
        for trigger in triggers.split("|"):
            pattern = shared
            if section in PREFIXED:
                # It comes first, what must stand before it is looked back at: the search for a literal is fast.
                prefix = re.escape(trigger)
                prefix += "" if len(trigger) >= _DISTINCT else _BEFORE.replace("{1}", prefix)
                pattern = lazy(prefix + body, flags)
            found.append((trigger, kind, pattern, verdict))
    return found


#: What several triggers of commands have in common.
_SHARED = (*WORDS, "login", " in with ", "openssl", "phrase", "identified", "client", "hmac", "jwt.", "send", "net use")


def _grouped(rules: Iterable[_Sought], sign: Callable[[str], str]) -> list[tuple[str, list[_Sought]]]:
    """The rules by a sign of their triggers: where that is missing, none of them needs to be looked for."""
    groups: dict[str, list[_Sought]] = {}
    for rule in rules:
        groups.setdefault(sign(rule[0]), []).append(rule)
    return list(groups.items())


def _rare(text: str) -> str:
    return text.encode("latin-1").translate(None, _COMMON).decode("latin-1")


_IN_RUNS, _OF_ANY_SERVICE = _sought("words"), _sought("any service")
_KEYS = _grouped(_sought("keys"), _rare)
_OTHERS = _grouped([*_sought("other keys"), *_sought("forms")], _rare)
_HEADERS, _PIPED, _SETTINGS = _sought("headers", re.I), _sought("piped", re.I), _sought("settings", re.I)
_COMMANDS, _CALLS = (
    _grouped(_sought(section, re.I), lambda trigger: next((part for part in _SHARED if part in trigger), trigger))
    for section in ("commands", "calls")
)
#: The signs of each that are not known to be there by the words of names.
_COMMAND_SIGNS, _CALL_SIGNS = ([sign for sign, _ in rules if sign not in WORDS] for rules in (_COMMANDS, _CALLS))


def redact(text: str) -> Clean:
    """The text with a typed mark such as `[redacted:github-token]` in place of each secret. Doing it twice is safe."""
    return Clean(_redact_short(text) if len(text) <= _SHORT else _redact(text))


def mark(kind: str) -> str:
    return OPENING + kind + "]"


def _redact(text: str) -> str:
    clear = _redact_fully(text)
    if text.isascii() or not _INVISIBLE().search(text):
        return clear
    # What no one sees may split a secret. Between letters of other scripts it has a meaning, and stays.
    visible = _SPLIT().sub("", clear)
    joined = _redact_fully(visible)
    return clear if joined == visible else joined


_redact_short = lru_cache(maxsize=8192)(_redact)


def _redact_fully(text: str) -> str:
    for _ in range(_PASSES if len(text) <= _LONG else _FEW):
        before = text
        narrow, low = _searchable(text)
        words = [word for word in WORDS if word in low]
        for read in (
            _passages,
            _forms,
            _prefixed,
            _files,
            _commands,
            _names,
        ):  # what one found is gone when the next one reads
            spans = list(read(text, narrow, low, words))
            if spans:
                text = _replaced(text, spans)
                narrow, low = _searchable(text)
        if text == before:
            break
    return text


def _replaced(text: str, spans: list[Span]) -> str:
    """The text with the mark of its kind in place of each (start, end, kind); of two that overlap, the first counts, or
    the longer one."""
    parts = []
    last = 0
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= last:
            parts += [text[last:start], mark(kind)]
            last = end
    return "".join(parts) + text[last:]


def _searchable(text: str) -> tuple[str, str]:
    """The text with `?` for each character outside Latin-1, which Python searches twice as fast at the same places, and
    that with A to Z in lower case: of other letters, some would become two."""
    if text.isascii():
        return text, text.lower()
    narrow = text.encode("latin-1", "replace")
    return narrow.decode("latin-1"), narrow.lower().decode("latin-1")


def _passages(text: str, narrow: str, low: str, words: Sequence[str]) -> Iterator[Span]:
    """`<private>…</private>`, nested ones as one, what an unclosed one opens up to the end, and private keys."""
    if "private" not in low:
        return
    depth = start = 0
    for tag in _PRIVATE().finditer(text):
        if not tag[1]:
            if not depth and tag[0] == "<Private>" and _is_type_argument(text, tag):
                continue
            start = start if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                yield start, tag.end(), "private"
    if depth:
        yield start, len(text), "private"
    yield from _key_blocks(text)


_CLOSED = lazy(r"</\s{0,9}private\s{0,9}>", re.I)


def _is_type_argument(text: str, tag: re.Match[str]) -> bool:
    """Whether `<Private>` stands behind a name, as in `Local<Private>`, and nothing closes it."""
    before = text[tag.start() - 1 : tag.start()]
    return (before.isalnum() or before == "_") and not _CLOSED().search(text, tag.end())


_EDGE = lazy(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
#: The file of a PuTTY key.
_PUTTY = lazy(r"Private-Lines: \d{1,4}(?:\s|\\[nr])+((?:[A-Za-z0-9+/=]{1,64}(?:\s|\\[nr])+){1,200})")
_LINES = lazy(r"[A-Za-z0-9+/=%]{30,}")
_LAST_LINE = lazy(r"(?:\s|\\[nr]){0,40}[A-Za-z0-9+/=]{1,76}(?=\s{0,40}\Z)")
#: Between the two edges of a key that stand in strings of their own, as in a program that reads keys.
_TWO_STRINGS = lazy(r"""\\?["'`][\s,;)]{0,40}[\w.\s]{1,60}[:=]{1,2}[ ]{0,4}[bBrRuU]?\\?["'`]\Z""")
#: More than the largest key in use takes, so that two mentions in one source file are not taken for a key.
_LONGEST = 40_000
#: What may stand between two lines of a key: line ends, quotes, line numbers, a header line.
_GAP = 80


def _key_blocks(text: str) -> Iterator[Span]:
    """Private keys: whole, cut off at either end, or inside a string. The bare words `BEGIN PRIVATE KEY` stay."""
    for lines in _PUTTY().finditer(text) if "Private-Lines: " in text else ():
        yield (*lines.span(1), "private-key")
    edges = list(_EDGE().finditer(text)) if "PRIVATE KEY" in text else []
    last = 0
    for index, edge in enumerate(edges):
        if edge.start() < last:
            continue
        start, end = edge.span()
        if edge[1] == "BEGIN":
            following = edges[index + 1] if index + 1 < len(edges) else None
            end = _end_of_key(text, end, following)
            found = end > edge.end()
        else:
            # Lines of key material before an END without a BEGIN.
            for run in reversed(list(_LINES().finditer(text, max(last, start - _LONGEST), start))):
                if run.end() < start - _GAP:
                    break
                start = run.start()
            found = start < edge.start()
        last = end
        if found:
            yield start, end, "private-key"


def _end_of_key(text: str, start: int, following: re.Match[str] | None) -> int:
    """Where the key that begins here ends; `start` itself if there is none."""
    limit = min(start + _LONGEST, following.start() if following else len(text))
    if following and following[1] == "END" and following.end() <= start + _LONGEST:
        body = text[start : following.start()].replace(OPENING + "private-key]", "")
        key = bool(body.strip(" \t\r\n\\nr\"'`+,;.…")) and not _TWO_STRINGS().match(body)
        if len(body) >= 400:
            key = sum(len(run) for run in _LINES().findall(body)) * 2 > len(body)
        if key:
            return following.end()
    position = start
    while True:
        run = _LINES().search(text, position, min(position + _GAP + 4096, limit))
        if not run or run.start() > position + _GAP:
            break
        position = run.end()
    rest = _LAST_LINE().match(text, position) if position > start else None
    return rest.end() if rest else position


def _forms(text: str, narrow: str, low: str, words: Sequence[str]) -> Iterator[Span]:
    """What is told by its form alone: keys of services, addresses with a password, hashes of passwords."""
    runs = _long_runs(narrow)
    for rule in _IN_RUNS:
        if rule[0] in runs and rule[2]().search(runs):
            yield from _searched(text, rule)
    for rules, sought in (_KEYS, runs), (_OTHERS, narrow):
        rare = _rare(sought)
        for sign, group in rules if sought else ():
            if sign in rare:
                for rule in group:
                    if rule[0] in sought:
                        yield from _searched(text, rule)


def _prefixed(text: str, narrow: str, low: str, words: Sequence[str]) -> Iterator[Span]:
    """Keys of services that no rule names."""
    runs = _long_runs(narrow)
    for rule in _OF_ANY_SERVICE if runs else ():
        if rule[0] in runs and rule[2]().search(runs):
            yield from _searched(text, rule)


@lru_cache(maxsize=1)
def _long_runs(narrow: str) -> str:
    """The long runs of what keys are made of, with a space between them."""
    flat = narrow.encode("latin-1").translate(_FLAT)
    found, start = [], flat.find(_RUN)
    while start >= 0:
        end = flat.find(b" ", start)
        found.append(narrow[start:end] if end >= 0 else narrow[start:])
        start = flat.find(_RUN, end) if end >= 0 else -1
    return " ".join(found)


def _searched(text: str, rule: _Sought) -> Iterator[Span]:
    _, kind, pattern, verdict = rule
    for found in pattern().finditer(text):
        secret = found[found.re.groups]
        if not is_reference(secret) and verdict(secret, found) and not _is_inside_base_64(text, found.start()):
            yield (*found.span(found.re.groups), kind)


#: How much of what stands before a key tells whether it is part of something longer.
_BASE_64_CHARS = 60


def _is_inside_base_64(text: str, start: int) -> bool:
    """Whether what was found goes on from letters that a machine wrote, as a key's prefix in an encoded file does."""
    if text[start - 1 : start] not in ("+", "/") or text[start - 2 : start - 1] in ("/", ":", ""):
        return False
    before = text[max(0, start - _BASE_64_CHARS) : start]
    run = before[len(before.rstrip(BASE_64)) :]
    return len(run) >= 24 and "://" not in before and is_strong(run.strip("+/").replace("/", "").replace("+", ""))


def _files(text: str, narrow: str, low: str, words: Sequence[str]) -> Iterator[Span]:
    """Secrets of which the kind of file tells: lines of .pgpass, manifests of Kubernetes, SQL."""
    if ":5432:" in low or "pgpass" in low:
        yield from pgpass(text)
    if "secret" in words and "kind" in low and "Secret" in text:
        yield from manifests(text)
    if words and "insert" in low:
        yield from inserted(text, low)
    if "password" in low and "value=" in low:
        yield from typed_fields(text, low)


def _commands(text: str, narrow: str, low: str, words: Sequence[str]) -> Iterator[Span]:
    """What is handed to commands and calls as a password: `sshpass -p …`, `Credential("u", "…")`."""
    sought = [(_CALLS, _CALL_SIGNS)]
    if " -" in low or "\t-" in low:
        sought.append((_COMMANDS, _COMMAND_SIGNS))
    for rules, signs in sought:
        held = {*words, *[sign for sign in signs if sign in low]}
        for sign, group in rules if held else ():
            if sign in held:
                for rule in group:
                    if rule[0] in low:
                        yield from _followed(text, low, rule, rules is _COMMANDS)
    for rule in _SETTINGS if "=" in low else ():
        if rule[0] in low:
            yield from _handed_settings(text, low, rule)
    for taker, kind, pattern, verdict in _PIPED if "|" in low else ():
        position = low.find(taker)
        while position >= 0:  # `echo … | docker login --password-stdin`
            first = max(0, position - _PIPE)
            first = max(first, low.rfind("\n", first, position) + 1)
            found = pattern().search(text[first:position])
            if found and verdict(found[1], found):
                yield first + found.start(1), first + found.end(1), kind
            position = low.find(taker, position + 1)


_COMMAND_LINE = lazy(r"(?:[^\r\n\\]|\\[^\r\n]|\\\r?\n){0,2000}")


def _handed_settings(text: str, low: str, rule: _Sought) -> Iterator[Span]:
    """Each of the settings that the command of a rule is handed, if it is a secret."""
    trigger, kind, pattern, verdict = rule
    position = low.find(trigger)
    while position >= 0:
        behind = position + len(trigger)
        end = _COMMAND_LINE().match(text, behind).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        for found in pattern().finditer(text, behind - 1, end):
            if verdict(found[found.re.groups], found):
                yield (*found.span(found.re.groups), kind)
        position = low.find(trigger, max(end, behind))


def _followed(text: str, low: str, rule: _Sought, option: bool = False) -> Iterator[Span]:
    """What follows the trigger of a rule; or an `option` that may stand anywhere behind it in the line."""
    trigger, kind, pattern, verdict = rule
    position = low.find(trigger)
    while position >= 0:
        behind = position + len(trigger)
        found = pattern().match(text, behind)
        if found and verdict(found[found.re.groups], found):
            yield (*found.span(found.re.groups), kind)
            behind = found.end()
        elif not found and option and low[behind : behind + 1] == " ":
            # An option that this command lacks, those that follow in the line lack as well, but for the last of them.
            end = _BREAK().search(text, behind, behind + _REACH)
            behind = max(behind, low.rfind(trigger, behind, end.start() if end else behind + _REACH))
        position = low.find(trigger, behind)


def _names(text: str, narrow: str, low: str, words: Sequence[str]) -> Iterator[Span]:
    """What a name announces, in English or, in a short text or one with their letters, in another language."""
    for rule in _HEADERS:
        for start, end, kind in _followed(text, low, rule) if rule[0] in low else ():
            yield start, _REST().match(text, end).end(), kind  # type: ignore[union-attr]  # it matches nothing, too
    for word in words:
        yield from _read(text, low, word, assigned)
    strange = beyond_ascii(text)
    if len(text) >= TALK and not any(map(str.isalpha, strange)):
        return
    if strange:
        low = text.lower() if len(text.lower()) == len(text) else text
    for word, sign, read in _FOREIGN:
        if sign in strange and word in low:
            yield from _read(text, low, word, read)


def _read(text: str, low: str, word: str, read: Callable[[str, int], Sequence[Span]]) -> Iterator[Span]:
    position = low.find(word)
    while position >= 0:
        end = 0
        for start, known, kind in read(text, position):
            end = _REST().match(text, known).end()  # type: ignore[union-attr]  # it matches nothing at all, too
            yield start, end, kind
        position = low.find(word, max(position + 1, end))


#: Each name of another language with what is not ASCII in it: mostly little of a text is, which is faster to search.
_FOREIGN = tuple((word, beyond_ascii(word), foreign(word, named)) for word, named in FOREIGN)


def redact_json(value: Any, named: Named = NOT_SECRET) -> Any:
    """A JSON value with every string redacted; one that stands under a secret's name is taken out whole."""
    if isinstance(value, str):
        text = redact(value)
        return mark(named.kind) if named.kind and is_field(text, named) else text
    if isinstance(value, dict):
        return _redact_object(value)
    if isinstance(value, list):
        return [redact_json(item, named) for item in value]
    if named.kind == "password" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return mark(named.kind)
    return value


def _redact_object(entries: dict[str, Any]) -> dict[str, Any]:
    beside = NOT_SECRET  # what the `value` is, by the `name` or `key` that stands beside it
    value = next((key for key in entries if key.endswith(("value", "Value"))), "")
    if entries.get("sensitive") is True:  # an output of Terraform
        beside = Named("secret", True)
    elif value:
        names = [value[:-5] + name for name in (("Name", "Key") if value[-5] == "V" else ("name", "key"))]
        name = next((entries[name] for name in names if name in entries), None)
        beside = classify(name) if isinstance(name, str) else NOT_SECRET
    clear: dict[str, Any] = {redact(key): _redact_entry(key, item, beside) for key, item in entries.items()}
    if entries.get("kind") == "Secret":  # of Kubernetes: all that it holds is one
        for part in ("data", "stringData"):
            if isinstance(clear.get(part), dict):
                clear[part] = {key: redact_json(item, Named("secret", True)) for key, item in clear[part].items()}
    return clear


def _redact_entry(key: str, value: Any, beside: Named) -> Any:
    """The value of a JSON object's entry; `beside` is what the entry `value` holds, by the name in another one."""
    named = beside if beside.kind and key.endswith(("value", "Value")) else classify(key)
    if isinstance(value, dict) and named.kind and isinstance(value.get("value"), str):
        return _redact_object({**value, "value": redact_json(value["value"], named)})
    several = NOT_SECRET if named.kind or not isinstance(value, list) else name_of_list(key)
    if not several.kind:
        return redact_json(value, named)

    def item_of(item: Any) -> Any:
        # A list with the name of several secrets may hold what is only about them.
        clear = redact_json(item)
        secret = isinstance(clear, str) and not any(map(str.isspace, clear)) and is_value(clear, several)
        return mark(several.kind) if secret else clear

    return list(map(item_of, value))
