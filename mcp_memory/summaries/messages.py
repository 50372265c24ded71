"""What is in a message: a person's words or a client's, prose or a pasted log, who speaks, and what a tool did.

Output of tools is never quoted at length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from mcp_memory import lexicon
from mcp_memory.domain.events import Event, Role
from mcp_memory.domain.sentences import windows
from mcp_memory.domain.text import ELLIPSIS, has_unspaced_script, strip_markup

_PATTERNS = lexicon.expressions("messages")
_URL = re.compile(r"\w+://\S+|\bwww\.\S+")
_HOME = re.compile(r"(?:~|/(?:home|Users|root)/?[^/\s]*|[A-Za-z]:\\Users\\[^\\\s]*)(?=[/\\])[/\\]")
# What clients write into a user's message by themselves.
_CLIENT_BLOCK = re.compile(
    r"<(system-reminder|command-name|command-message|command-contents|local-command-stdout|local-command-stderr|"
    r"local-command-caveat|bash-stdout|bash-stderr|hook_context|user-prompt-submit-hook|task-notification|"
    r"ide_selection|ide_opened_file|environment_context|user_instructions|INSTRUCTIONS|"
    r"permissions instructions)>.*?(?:</\1>|\Z)",
    re.S,
)
# What an editor puts before a request: open files and selected lines.
_IDE_CONTEXT, _IDE_REQUEST = "# Context from my IDE setup", re.compile(r"^## My request for [^\n]*$", re.M)
# A command with what was said to it; a directory is none.
_SLASH = re.compile(r"/(?!(?:tmp|etc|var|usr|home|opt|dev|proc|mnt|srv|root)\b)(?=[a-z][\w-]*\s+\S)")
_CLIENT_TAIL = re.compile(r"</?command-args>|^If you need specific details from before exiting plan mode[^\n]*", re.M)
_COMMAND = re.compile(r"<command-name>/?([\w:-]+)</command-name>")
_SPEAKER = re.compile(r"([^\W\d_][\w.’' -]{0,30}?): (?=\S)")
_LONGEST_NAME = 34
# What a clean line is without: marks that may be markup, and what may be an address or a place.
_MARK = re.compile(r"[^ -)+-;=-\[\]^_`a-z{}]")
# An element that is spoken of, by its name, and an address, by its host: without them the sentence would have a hole.
_CODED_TAG = re.compile(r"`</?([A-Za-z][\w.:-]*)(?:\s[^`<>]*)?/?>`")
_CODED_PLACE = re.compile(r"`\w+://([\w.-]*\w)[^`\s]*`")
_UNDERLINED = re.compile(r"(?<!\w)_")
_STARTS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ`\"'(")
_SPACED_WORD = re.compile(r"(?<!\S)[\"'(]*[^\W\d_]{2,}[,.;:!?)\"']*(?!\S)")


def spoken(text: str) -> str:
    """What a person wrote in a user message: the client's own blocks and lines are blanked out, offsets stay."""
    if "<" in text:
        text = _CLIENT_BLOCK.sub(_blank, text)
    if "command-args>" in text or "If you need specific details" in text:
        text = _CLIENT_TAIL.sub(_blank, text)
    if text[:1] == "/" and _SLASH.match(text):
        text = f" {text[1:]}"
    if text.startswith(_IDE_CONTEXT) and (asked := _IDE_REQUEST.search(text)):
        text = "\n" * asked.end() + text[asked.end() :]
    line = _PATTERNS["client_line"].match(text)
    if line:
        # A placeholder or a line stands alone; any other opening makes the whole message the client's.
        blank = line.end() if line[0].endswith(("]", "\n")) else len(text)
        text = "\n" * blank + text[blank:]
    return text


def _blank(match: re.Match[str]) -> str:
    return "\n" * len(match[0])


def command_name(event: Event) -> str:
    """The slash command a user message consists of, without its slash."""
    match = _COMMAND.search(event.text)
    return match[1] if match else ""


def is_clean(raw: str) -> bool:
    """Whether a stretch is one clean line as it stands, as most are; this is quicker to tell than to make it one."""
    if raw[:1] not in _STARTS or raw[-1] == " " or _MARK.search(raw):
        return False
    if "  " in raw or "```" in raw or "](" in raw or ("_" in raw and _UNDERLINED.search(raw)):
        return False
    return not ("/" in raw and ("://" in raw or "/home" in raw or "/Users" in raw or "/root" in raw) or "www." in raw)


def plain(raw: str) -> str:
    """A stretch of a message as one clean line."""
    if is_clean(raw):
        return raw
    if "`<" in raw:
        raw = _CODED_TAG.sub(r"`\1`", raw)
    if "://" in raw and "`" in raw:
        raw = _CODED_PLACE.sub(r"`\1`", raw)
    text = without_places(strip_markup(raw))
    if text[:1] == "|":
        cells = [cell.strip() for cell in text.strip(" |\n").split("|")]
        text = " — ".join(cell for cell in cells if any(map(str.isalpha, cell)))
    return " ".join(text.split()).lstrip("✅✓❌ ")


def readable(body: str) -> bool:
    """Whether it is language rather than a dump, a path or a bare name."""
    if has_unspaced_script(body):
        return True
    return _SPACED_WORD.search(body) is not None and (len(body) < 80 or body.count(" ") * 25 > len(body))


def speaker_of(text: str) -> str:
    match = _SPEAKER.match(text) if text.find(": ", 0, _LONGEST_NAME) > 0 else None
    return match[1] if match else ""


def speakers(events: Sequence[Event]) -> frozenset[str]:
    """The names with which messages open, as in chats between people: `Name: what was said`."""
    said = [event.text for event in events if event.role in (Role.USER, Role.ASSISTANT) and event.says_something]
    names = [name for name in map(speaker_of, said) if name]
    talking = len(said) > 1 and len(names) * 3 >= len(said) * 2 and len(set(names)) * 2 <= max(len(names), 4)
    return frozenset(names if talking else ())


def without_places(text: str) -> str:
    """The text without addresses and without home directories in its paths."""
    if "://" in text or "www." in text:
        text = _URL.sub(" ", text)
    if "~" in text or "/home" in text or "/Users" in text or "/root" in text or "\\Users" in text:
        text = _HOME.sub("", text)
    return text


_FEWEST_LINES, _LEAST_CODE = 2, 2


class Pasted(NamedTuple):
    """Characters `start` to `end` of a message that were pasted; `log` tells output from code."""

    start: int
    end: int
    log: bool


@lru_cache(maxsize=1 << 9)
def pasted_in(text: str) -> Sequence[Pasted]:
    """The pasted runs of lines in the windows of a message, in order."""
    if text.count("\n") < _FEWEST_LINES - 1:
        return ()
    return tuple(run for low, high in windows(len(text)) for run in _runs(text, low, high))


def own_words(text: str) -> str:
    """A message with what was pasted blanked out; offsets stay."""
    for start, end, _ in pasted_in(text):
        text = f"{text[:start]}{chr(10) * (end - start)}{text[end:]}"
    return text


def pasted_error(text: str, log: Pasted) -> tuple[int, int] | None:
    """Where a pasted log names its error."""
    return error_span(text[: log.end], log.start)


def _runs(text: str, low: int, high: int) -> Iterator[Pasted]:
    """Lines of code or of a log that stand together, with what is indented or blank between them."""
    run = _Run()
    at, fenced = low, False
    for line in text[low:high].split("\n"):
        fence = line.lstrip().startswith(("```", "~~~"))
        fenced = fenced is not fence
        # What stands in fences is known to be code.
        if fence or fenced or not run.takes(line, at):
            if made := run.done():
                yield made
            run = _Run()
        at += len(line) + 1
    if made := run.done():
        yield made


class _Run:
    """Lines that may be one pasted stretch."""

    __slots__ = ("_code", "_end", "_logged", "_open", "_start")

    def __init__(self) -> None:
        self._start = self._end = -1
        self._code = self._logged = 0
        self._open = False

    def takes(self, line: str, at: int) -> bool:
        """Whether the line goes on with the run, or begins one."""
        if not line.strip():
            self._open = False
            # Where nothing was pasted yet, what stands before a blank line has nothing to do with what follows.
            return bool(self._code or self._logged)
        logged = _PATTERNS["log"].match(line) is not None
        coded = not logged and (_PATTERNS["code"].match(line) or _PATTERNS["columns"].match(line)) is not None
        begun = self._code or self._logged
        if not (logged or coded or (_PATTERNS["between"] if begun else _PATTERNS["above"]).match(line)):
            return False
        self._logged += logged
        self._code += coded
        self._start = at if self._start < 0 else self._start
        if logged or coded or self._open or (self._logged and line.startswith("  ")):
            self._end = at + len(line)
            self._open = True
        return True

    def done(self) -> Pasted | None:
        if self._logged or self._code >= _LEAST_CODE:
            return Pasted(self._start, self._end, self._logged > 0)
        return None


_HEAD = re.compile(r"([A-Za-z][\w.-]{0,60})(?:: ?([^\n]*))?")
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
    verb = next((verb.capitalize() for verb, tools in lexicon.word_lists("tools").items() if name in tools), "Used")
    if verb in ("Edited", "Read"):
        return Call(tool, verb, basename(target), match.end(), failed)
    if target.startswith(("{", "[")):
        return None  # bookkeeping of the agent, such as its list of to-dos
    return Call(tool, verb, target, match.end(), failed)


def basename(path: str) -> str:
    """The last name of a path; what follows a blank is not part of it."""
    match = _PATH.match(path)
    name = (match[0] if match else path).rstrip("/\\:")
    return name[max(name.rfind("/"), name.rfind("\\")) + 1 :].rstrip(ELLIPSIS)


def error_span(text: str, start: int = 0) -> tuple[int, int] | None:
    """Where the line that names the error stands. A line that ends in a colon hands over to the next."""
    best, best_score = None, 0
    length = len(text)
    whole = length - start <= 2 * _WINDOW
    for low, high in [(start, length)] if whole else [(start, start + _WINDOW), (length - _WINDOW, length)]:
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
    # Most output holds none of the words, which is sooner told of all of it at once.
    stretch = text[low:high]
    small = stretch.lower()
    if not any(word in small for word in _ERROR_WORDS) and not _PATTERNS["error_code"].search(stretch):
        return
    for line in _LINE.finditer(text, low, high):
        said = line[0]
        if _PATTERNS["error_said"].search(said.lower()) or _PATTERNS["error_code"].search(said):
            yield line.span()


def _telling(line: str) -> int:
    """How well a line names an error; 0 for one that only says that something failed."""
    if _PATTERNS["dull_error"].search(line) or len(line.strip()) < 12:
        return 0
    named = _PATTERNS["names_error"].search(line) is not None
    return 1 + 2 * named + bool(_IDENTIFIER.search(line)) + (20 <= len(line) <= 200)


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
