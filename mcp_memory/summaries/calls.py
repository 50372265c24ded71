"""What the calls of tools tell: plans, answers to questions, commits, to-dos, how tests ended, which errors stayed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from mcp_memory import lexicon
from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.text import ELLIPSIS
from mcp_memory.summaries.messages import plain

_PATTERNS = lexicon.expressions("messages")
_HEAD = re.compile(r"([A-Za-z][\w.-]{0,60})(?:: ?([^\n]*))?")
_VERBS = {tool: verb.capitalize() for verb, tools in lexicon.word_lists("tools").items() for tool in tools}
_FAILING = ("E", "T", "f", "")
_FAILED = re.compile(r"\s*(?:Exit code [1-9]|Error\b|Traceback|fatal:)")
_RESULT_LINE = re.compile(
    r"^[^\n]{0,60}?(?<![\w.-])\d[\d,]*(?: of \d[\d,]*)? (?:\w+ )?"
    r"(?:passed|passing|failed|failing|failures?)\b[^\n]{0,120}$",
    re.M,
)
_PATH = re.compile(r"[\w.@~+/\\:-]+")
_ERROR_WORDS = (
    *("error", "exception", "panic:", "fatal:", "fail", "undefined:", "not found"),
    *("cannot", "missing", "denied", "expected", "invalid", "⨯", "✗", "✘"),
)
_LINE_NOISE = re.compile(r"^[\s│|>•⨯✗✘*=-]+|^\[[\w:.-]+\]\s*|^\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\s*")
_IDENTIFIER = re.compile(r"[a-z][A-Z]|\w[._/]\w|['\"`]\w")
_LINE = re.compile(r"[^\n]+")
_NEXT_LINE = re.compile(r"\n+([^\n]+)")
_MAX_ERRORS = 20
_WINDOW = 2_000


class Call(NamedTuple):
    """One tool call: `verb` says what was done, `target` to what; `head` is where the lines that name it end."""

    tool: str
    verb: str
    target: str
    head: int
    failed: bool


def call_of(event: Event) -> Call | None:
    """The call behind a tool result whose first line reads `Tool: input`."""
    return _parsed(event.text, event.call_end)


@lru_cache(maxsize=128)
def _parsed(text: str, head: int) -> Call | None:
    match = _HEAD.match(text)
    if not match:
        return None
    tool, target = match[1], (match[2] or "").strip()
    head = max(head, match.end())
    failed = text[head : head + 4].lstrip()[:1] in _FAILING and bool(_FAILED.match(text, head))
    verb = _VERBS.get(tool.lower(), "Used")
    if verb == "Edited" and "/.claude/plans/" in target:
        return None  # a plan that the agent keeps for itself, under a name made of chance words
    if verb in ("Edited", "Read"):
        return Call(tool, verb, basename(target), head, failed)
    if target.startswith(("{", "[")):
        return None  # bookkeeping of the agent, such as its list of to-dos
    return Call(tool, verb, target, head, failed)


def basename(path: str) -> str:
    """The last name of a path; what follows a blank is not part of it."""
    match = _PATH.match(path)
    name = (match[0] if match else path).rstrip("/\\:")
    return name[max(name.rfind("/"), name.rfind("\\")) + 1 :].rstrip(ELLIPSIS)


def error_span(text: str, start: int = 0) -> tuple[int, int] | None:
    """Where the line that names the error stands, near the beginning or the end of output.

    A line that ends in a colon hands over to the next, and one that only says that something failed names nothing.
    """
    found: list[tuple[int, tuple[int, int]]] = []
    ends = len(text) - _WINDOW
    for line in _LINE.finditer(text, start):
        if start + _WINDOW < line.start() < ends or len(found) == _MAX_ERRORS or not _speaks_of_error(line[0]):
            continue
        first, last = line.span()
        while text[first:last].rstrip().endswith((":", "=")) and (following := _NEXT_LINE.match(text, last)):
            first, last = following.span(1)
        told = text[first:last]
        dull = _PATTERNS["dull_error"].search(told) or len(told.strip()) < 12
        if not dull and (span := _without_noise(text, first, last)):
            named = _PATTERNS["names_error"].search(told) is not None
            found.append((2 * named + bool(_IDENTIFIER.search(told)) + (20 <= len(told) <= 200), span))
    return max(found, key=lambda one: one[0], default=(0, None))[1]


def _speaks_of_error(line: str) -> bool:
    low = line.lower()
    if not any(word in low for word in _ERROR_WORDS) and "E" not in line:
        return False
    return (_PATTERNS["error_said"].search(low) or _PATTERNS["error_code"].search(line)) is not None


def _without_noise(text: str, start: int, end: int) -> tuple[int, int] | None:
    while noise := _LINE_NOISE.match(text[start:end]):
        start += noise.end()
    end = start + len(text[start:end].rstrip())
    return (start, end) if end - start >= 8 else None


class Source(IntEnum):
    """Where a statement comes from; a higher one was more surely written as a conclusion."""

    ACTION = 0
    PASSING = 1
    CLOSING = 2
    MESSAGE = 3
    TODO = 4
    COMMIT = 5
    TITLE = 6
    PULL_REQUEST = 7
    PLAN = 8
    ANSWER = 9
    NOTE = 10


class Told(NamedTuple):
    """What characters `start` to `end` of a call's text tell."""

    kind: Kind
    source: Source
    start: int
    end: int
    text: str
    #: The short hash of a commit.
    name: str = ""


_LABELLED = re.compile(r"^(Commit message|Pull request|Issue|Issue closed|Question|Chosen|Note): ([^\n]+)$", re.M)
_COMMIT_LINE = re.compile(r"^\[[\w./@+#-]+(?: \([\w-]+\))? ([0-9a-f]{7,40})\] (?!Merge )([^\n]{8,})$", re.M)
_MESSAGE = re.compile(r"""\s(?:-[a-z]*m|--message)[ =](["'])(?!\$)([^"'\n]{8,})\1""")
#: What a commit says that records nothing, and where repositories are made only to try something.
_NOTHING = re.compile(r"^(?:nothing|no changes) added to commit|^nothing to commit", re.M)
_THROWAWAY = re.compile(r"(?:\bcd|-C) +[\"']?(?:/private)?(?:/tmp/|/var/folders/|\$\(mktemp|\$TMPDIR)|\bmktemp -d")
_SUBAGENTS = frozenset({"Task", "Agent"})
_TODO = re.compile(r"^\[([x~> ])\] ([^\n]{8,})$", re.M)
_ANSWERED = re.compile(r"^([^\n→]{8,}) → ([^\n]+)$", re.M)
# The call gives the plan on one line, where the next heading ends the first one.
_PLAN_HEAD = re.compile(r"\w+: #{1,3} (\S[^#]{6,80}?) (?=#)")
_PLAN_LINE = re.compile(r"^#{1,3} (?!Approved Plan)(\S[^\n]{6,90})$", re.M)
_PLAN_WORD = re.compile(r"(?:(?:implementation |fix )?plan|task)\s*(?::|for|to|[–—-])\s+", re.I)
_PREAMBLE = re.compile(r"^(?:cd [^&;]+(?:&&|;)\s*|\w+=\S+\s+)+")


def was_refused(event: Event) -> bool:
    """Whether the user turned the call down."""
    return event.metadata.get("refused") is True or "doesn't want to proceed" in event.text[:_WINDOW]


def without_plan(heading: str) -> str:
    """The heading of a plan without that word."""
    return _PLAN_WORD.sub("", heading) if _PLAN_WORD.match(heading) else heading


def told_by_call(event: Event) -> Sequence[Told]:
    """What one call concludes: a plan that was agreed to, the answer to a question, a commit, steps, tests' counts."""
    call = call_of(event)
    if call is None or was_refused(event):
        return ()
    return _concluded(event.text, call, bool(event.metadata.get("failed")))


@lru_cache(maxsize=128)
def _concluded(text: str, call: Call, failed: bool) -> Sequence[Told]:
    return tuple(_conclusions(text, call, failed))


def _conclusions(text: str, call: Call, failed: bool) -> Iterator[Told]:
    if call.tool == "ExitPlanMode" and not failed:
        if match := _PLAN_LINE.search(text, call.head, call.head + _WINDOW) or _PLAN_HEAD.match(text, 0, call.head):
            yield Told(Kind.REQUEST, Source.PLAN, *match.span(1), without_plan(plain(match[1])))
    elif call.tool == "AskUserQuestion":
        yield from _answers(text)
    elif call.tool in _SUBAGENTS and call.target:
        yield Told(Kind.STEP, Source.TODO, 0, call.head, plain(call.target))
    elif call.verb == "Ran":
        yield from _from_command(text, call)
    if text.startswith("[", call.head + 1):
        for step in _TODO.finditer(text, call.head, call.head + 2 * _WINDOW):
            kind = Kind.STEP if step[1] == "x" else Kind.PLANNED
            yield Told(kind, Source.TODO, *step.span(2), plain(step[2]))


def _answers(text: str) -> Iterator[Told]:
    """Each question with what the user chose or said instead."""
    asked: re.Match[str] | None = None
    for line in _LABELLED.finditer(text):
        if line[1] == "Question":
            asked = line
        elif line[1] in ("Chosen", "Note") and asked:
            yield Told(Kind.DECISION, Source.ANSWER, *line.span(2), f"{plain(asked[2])} → {plain(line[2])}")
    if asked is None:
        for pair in _ANSWERED.finditer(text):
            yield Told(Kind.DECISION, Source.ANSWER, *pair.span(), f"{plain(pair[1])} → {plain(pair[2])}")


def _from_command(text: str, call: Call) -> Iterator[Told]:
    """A commit that landed, a pull request, or what a run of tests came to, well or not."""
    landed = not call.failed and not _THROWAWAY.search(text, 0, call.head)
    for line in _LABELLED.finditer(text, call.head, call.head + _WINDOW) if landed else ():
        if line[1] in ("Pull request", "Issue", "Issue closed"):
            told = plain(line[2]) if line[1] != "Issue closed" else f"Closed issue {plain(line[2])}"
            yield Told(Kind.OUTCOME, Source.PULL_REQUEST, *line.span(2), told)
            return
    labelled = _LABELLED.finditer(text, call.head, call.head + _WINDOW)
    message = next((line for line in labelled if line[1] == "Commit message"), None)
    if landed and (message or "git commit" in text[: call.head] or "\n[" in text[call.head : call.head + _WINDOW]):
        found = _COMMIT_LINE.search(text, call.head, call.head + _WINDOW)
        match = found or message or _MESSAGE.search(text, 0, call.head)
        if match and (found or not _NOTHING.search(text, call.head, call.head + _WINDOW)):
            name = found[1] if found else ""
            yield Told(Kind.COMMIT, Source.COMMIT, *match.span(2), plain(match[2]), name)
            return
    start = max(call.head, len(text) - _WINDOW)
    span = None
    for line in _RESULT_LINE.finditer(text, start) if "pass" in text[start:] or "fail" in text[start:] else ():
        span = line.span()
    if span and (clean := _without_noise(text, *span)):
        yield Told(Kind.RESULT, Source.ACTION, *clean, plain(text[slice(*clean)]).strip("= "))


def edited_files(calls: Iterable[Event]) -> dict[str, Event]:
    """The names of the files that were changed, each with the call that changed it last, the most changed first."""
    found = [(call.target, event) for event in calls if (call := call_of(event)) and call.verb == "Edited"]
    names = [name for name, event in found if name and not was_refused(event) and not event.metadata.get("failed")]
    return {name: dict(found)[name] for name in sorted(dict.fromkeys(names), key=lambda name: -names.count(name))}


def lasting_errors(calls: Sequence[Event]) -> list[tuple[Event, int, int]]:
    """The errors of failed commands that did not succeed when they, or the like, ran again."""
    succeeded: set[str] = set()
    found: list[tuple[Event, int, int]] = []
    for event in reversed(calls):
        call = call_of(event)
        if call and call.verb == "Ran":
            name = " ".join(_PREAMBLE.sub("", call.target).split()[:2])
            if not call.failed:
                succeeded.add(name)
            elif name not in succeeded and not was_refused(event) and (span := error_span(event.text, call.head)):
                succeeded.add(name)
                found.append((event, *span))
    return found[::-1]
