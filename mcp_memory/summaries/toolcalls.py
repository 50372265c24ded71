"""Reading a tool result: which tool did what to which file, and whether it failed. Output is never quoted at length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from mcp_memory.domain.events import Event
from mcp_memory.domain.text import ELLIPSIS

_HEAD = re.compile(r"([A-Za-z][\w.-]{0,60})(?:: ?([^\n]*))?")
_EDITING = frozenset(
    """
    edit write multiedit notebookedit apply_patch patch write_file replace create_file str_replace edit_file
    save_file
    """.split()
)
_READING = frozenset("read read_file view cat open notebookread".split())
_SEARCHING = frozenset("grep glob search search_files find websearch web_search list_files codebase_search ls".split())
_FETCHING = frozenset("webfetch web_fetch fetch".split())
_RUNNING = frozenset("bash shell exec run_shell_command run_terminal_cmd local_shell exec_command powershell".split())
_FAILING = ("E", "T", "f", "")
_FAILED = re.compile(r"\s*(?:Exit code [1-9]|Error\b|Traceback|fatal:)")
_COMMIT_LINE = re.compile(r"^\[[\w./@+#-]+(?: \([\w-]+\))? ([0-9a-f]{7,40}\] (?!Merge )[^\n]{8,})$", re.M)
_MESSAGE = re.compile(r"""\s(?:-[a-z]*m|--message)[ =](["'])(?!\$)([^"'\n]{8,})\1""")
_RESULT_LINE = re.compile(
    r"^[^\n]{0,60}?(?<![\w.-])\d[\d,]*(?: of \d[\d,]*)? (?:\w+ )?"
    r"(?:passed|passing|failed|failing|failures?)\b[^\n]{0,120}$",
    re.M,
)
_STEP = re.compile(r"^\[[~>]\] ([^\n]{8,})$", re.M)
_REASON = re.compile(r"the user (?:said|provided the following reason[^:\n]*):\s*", re.I)
# The call gives the plan on one line, where the next heading ends the first one.
_PLAN_HEAD = re.compile(r"\w+: #{1,3} (\S[^#]{6,80}?) (?=#)")
_PLAN_LINE = re.compile(r"^#{1,3} (?!Approved Plan)(\S[^\n]{6,90})$", re.M)
_PATH = re.compile(r"[\w.@~+/\\:-]+")
_CODES = (
    r"(?-i:\bERR_\w+|\bE(?:NOENT|ACCES|PERM|ADDRINUSE|CONNREFUSED|CONNRESET|TIMEDOUT|PIPE|EXIST|MFILE|AGAIN|INVAL|ISDIR"
    r"|NOTDIR|NOTFOUND|NOSPC|RESOLVE|INTEGRITY)\b)"
)
# In small letters, which is how lines are looked through; a code is told by its capitals.
_ERROR_SAID = re.compile(
    r"error\b|\berrors\b|exception\b|\bpanic:|\bfatal:|\bfail(?:ed\b|:)|\bundefined:|not found|"
    r"\b(?:cannot|missing|denied|expected|unexpected|invalid)\b|[⨯✗✘]"
)
_ERROR_WORDS = (
    *("error", "exception", "panic:", "fatal:", "fail", "undefined:", "not found"),
    *("cannot", "missing", "denied", "expected", "invalid", "⨯", "✗", "✘"),
)
# Codes of runtimes and systems: ERR_MODULE_NOT_FOUND, EADDRINUSE.
_ERROR_CODE = re.compile(_CODES)
_DULL_ERROR = re.compile(
    r"exit(?:ed)? (?:code|status)|task failed|^\s*at |no test files|0 errors|command failed|process .* failed", re.I
)
_LINE_NOISE = re.compile(r"^[\s│|>•⨯✗✘*=-]+|^\[[\w:.-]+\]\s*|^\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\s*")
_NAMES_ERROR = re.compile(
    r"\w(?:Error|Exception)\b:|\berror(?:\[\w+\])?: \S|not found|undefined|undeclared|cannot|can't|denied|expected|"
    r"invalid|unknown|refused|missing|unresolved|mismatch|no such|panic:|fatal:|" + _CODES,
    re.I,
)
_IDENTIFIER = re.compile(r"[a-z][A-Z]|\w[._/]\w|['\"`]\w")
_LINE = re.compile(r"[^\n]+")
_NEXT_LINE = re.compile(r"\n+([^\n]+)")
_MAX_ERRORS = 20
_WINDOW = 2_000


class Call(NamedTuple):
    """One tool call: `verb` says what was done, `target` to what; `head` is where its first line ends."""

    tool: str
    verb: str
    target: str
    head: int
    failed: bool


def call_of(event: Event) -> Call | None:
    """The call behind a tool result whose first line reads `Tool: input`."""
    return _parsed(event.text)


@lru_cache(maxsize=128)
def _parsed(text: str) -> Call | None:
    match = _HEAD.match(text)
    if not match:
        return None
    tool, target = match[1], (match[2] or "").strip()
    name = tool.lower()
    failed = text[match.end() : match.end() + 4].lstrip()[:1] in _FAILING and bool(_FAILED.match(text, match.end()))
    if name in _EDITING or name in _READING:
        verb = "Edited" if name in _EDITING else "Read"
        return Call(tool, verb, basename(target), match.end(), failed)
    if target.startswith(("{", "[")):
        return None  # bookkeeping of the agent, such as its list of to-dos
    verb = (
        "Searched" if name in _SEARCHING else "Fetched" if name in _FETCHING else "Ran" if name in _RUNNING else "Used"
    )
    return Call(tool, verb, target, match.end(), failed)


def basename(path: str) -> str:
    """The last name of a path; what follows a blank is not part of it."""
    match = _PATH.match(path)
    name = (match[0] if match else path).rstrip("/\\:")
    return name[max(name.rfind("/"), name.rfind("\\")) + 1 :].rstrip(ELLIPSIS)


def error_span(text: str, start: int = 0) -> tuple[int, int] | None:
    """Where the line that names the error stands. A line that ends in a colon hands over to the next."""
    best, best_score = None, 0
    for low, high in _windows(len(text), start):
        for first, last in islice(_error_lines(text, low, high), _MAX_ERRORS):
            while text[first:last].rstrip().endswith((":", "=")) and (following := _NEXT_LINE.match(text, last)):
                first, last = following.span(1)
            score = _telling(text[first:last])
            if score > best_score and (span := _without_noise(text, first, last)):
                best, best_score = span, score
    return best


def _error_lines(text: str, low: int, high: int) -> Iterator[tuple[int, int]]:
    """The lines of a stretch of output that speak of an error."""
    if 0 < low < high and "\n" not in (text[low - 1], text[low]):
        # The stretch begins within a line, whose rest would mislead.
        stop = text.find("\n", low, high)
        low = high if stop < 0 else stop
    if not _speaks_of_error(text[low:high]):
        return
    for line in _LINE.finditer(text, low, high):
        said = line[0]
        if _ERROR_SAID.search(said.lower()) or _ERROR_CODE.search(said):
            yield line.span()


def _speaks_of_error(stretch: str) -> bool:
    """Whether any line can: most output holds none of the words, which is sooner told of all of it at once."""
    low = stretch.lower()
    return any(word in low for word in _ERROR_WORDS) or _ERROR_CODE.search(stretch) is not None


def _telling(line: str) -> int:
    """How well a line names an error; 0 for one that only says that something failed."""
    if _DULL_ERROR.search(line) or len(line.strip()) < 12:
        return 0
    return 1 + 2 * bool(_NAMES_ERROR.search(line)) + bool(_IDENTIFIER.search(line)) + (20 <= len(line) <= 200)


def _windows(length: int, start: int) -> list[tuple[int, int]]:
    if length - start <= 2 * _WINDOW:
        return [(start, length)]
    return [(start, start + _WINDOW), (length - _WINDOW, length)]


def _without_noise(text: str, start: int, end: int) -> tuple[int, int] | None:
    while noise := _LINE_NOISE.match(text[start:end]):
        start += noise.end()
    end = start + len(text[start:end].rstrip())
    return (start, end) if end - start >= 8 else None


def commit_span(text: str, start: int) -> tuple[int, int] | None:
    """Where git's answer to a commit names it: `6f3ac1d] Subject`."""
    if text.find("\n[", start, start + _WINDOW) < 0:
        return None
    match = _COMMIT_LINE.search(text, start, start + _WINDOW)
    return match.span(1) if match else None


def message_span(text: str, end: int) -> tuple[int, int] | None:
    """Where a command that commits names its subject, for when git answers nothing: `git commit -qm "Subject"`."""
    at = text.find("git commit", 0, end)
    match = _MESSAGE.search(text, at, end) if at >= 0 else None
    return match.span(2) if match else None


def result_span(text: str, start: int) -> tuple[int, int] | None:
    """Where a test runner sums up: the last line that counts what passed or failed."""
    start = max(start, len(text) - _WINDOW)
    if text.find("pass", start) < 0 and text.find("fail", start) < 0:
        return None
    span = None
    for line in _RESULT_LINE.finditer(text, start):
        span = line.span()
    return _without_noise(text, *span) if span else None


def steps(text: str, start: int) -> list[tuple[int, int]]:
    """The lines of an agent's list of to-dos that are being worked on."""
    if not text.startswith("[", start + 1):
        return []
    return [line.span(1) for line in _STEP.finditer(text, start, start + _WINDOW)]


def plan_span(text: str, start: int) -> tuple[int, int] | None:
    """Where a plan that is put before the user names itself: its first heading, in the call or below it."""
    match = _PLAN_LINE.search(text, start, start + _WINDOW) or _PLAN_HEAD.match(text, 0, start)
    return match.span(1) if match else None


def is_rejected(text: str, start: int) -> bool:
    """Whether the user turned the call down."""
    return text.find("doesn't want to proceed", start, start + _WINDOW) >= 0


def rejection_span(text: str, start: int) -> tuple[int, int] | None:
    """The user's own words inside a result that says why the tool call was turned down."""
    if text.find("he user ", start, start + _WINDOW) < 0:
        return None
    match = _REASON.search(text, start, start + _WINDOW)
    if not match:
        return None
    stop = text.find("\n\n", match.end())
    end = len(text) if stop < 0 else stop
    return (match.end(), end) if text[match.end() : end].strip() else None
