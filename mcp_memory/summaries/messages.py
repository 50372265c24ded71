"""What is in a message: a person's words or a client's, prose or a pasted log, who speaks, and what a tool did.

Output of tools is never quoted at length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from mcp_memory import lexicon
from mcp_memory.domain.events import Event, Role
from mcp_memory.domain.sentences import Form, sentences, windows
from mcp_memory.domain.text import folded, has_unspaced_script, strip_markup

_PATTERNS = lexicon.expressions("messages")
#: How a sentence is meant, by its wording.
SAYS = lexicon.expressions("claims")
MAX_TEXT = 220


@lru_cache(maxsize=1 << 13)
def says(name: str, text: str) -> bool:
    """Whether a text holds a wording, in any case; much is asked of a sentence more than once."""
    return SAYS[name].search(folded(text)) is not None


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


#: Numbered lines of a file, a difference between files, the prompt of a shell, and what a client says itself.
_COPIED = re.compile(
    r"\[Request interrupted by user|(?:^|\s)\d{1,5}→|@@ -\d|^diff --git |^(?:\+\+\+|---) [ab]/|\b\w+@[\w.-]+:[~/]"
)


def readable(body: str) -> bool:
    """Whether it is language rather than a dump, a path or a bare name."""
    if _COPIED.search(body):
        return False
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


_TYPED = re.compile(r"\s*(?:[$❯] |\w+@[\w.-]+:\S*[$#] )")


class _Run:
    """Lines that may be one pasted stretch."""

    __slots__ = ("_code", "_end", "_logged", "_open", "_start", "_typed")

    def __init__(self) -> None:
        self._start = self._end = -1
        self._code = self._logged = 0
        self._open = self._typed = False

    def takes(self, line: str, at: int) -> bool:
        """Whether the line goes on with the run, or begins one."""
        if not line.strip():
            self._open = False
            # Where nothing was pasted yet, what stands before a blank line has nothing to do with what follows.
            return bool(self._code or self._logged)
        logged = _PATTERNS["log"].match(line) is not None
        coded = not logged and (_PATTERNS["code"].match(line) or _PATTERNS["columns"].match(line)) is not None
        begun = self._code or self._logged
        self._typed |= _TYPED.match(line) is not None
        if not (logged or coded or (_PATTERNS["between"] if begun else _PATTERNS["above"]).match(line)):
            # Below a command any line may be its output, if what is known to be output follows.
            self._open = False
            return self._typed
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


@dataclass(frozen=True, slots=True)
class Thought:
    """A sentence of a message, or a lead with its items; `lead` is the heading or line above it."""

    start: int
    end: int
    text: str
    form: Form
    block: int
    lead: str


@lru_cache(maxsize=1 << 10)
def units(text: str, longest: int = MAX_TEXT) -> Sequence[Thought]:
    """The sentences of a message, cleaned; a lead and its items are one if they fit together."""
    found = sentences(text)
    made: list[Thought] = []
    heading = lead = ""
    taken, led = 0, -2
    for index, (start, end, form, block) in enumerate(found):
        if start < taken:
            continue
        body = plain(text[start:end])
        if not body:
            continue
        if form == "heading":
            heading, lead = body, ""
            made.append(Thought(start, end, body, form, block, ""))
            continue
        if form == "prose" and block != led and led != block - 1:
            lead = ""
        if body.endswith((":", "：")) or (form == "prose" and _is_bold_line(text, start, end)):
            head = body.rstrip(":： ")
            joined, stop = _with_items(text, head, end, found[index + 1 :], longest)
            if stop > end and not is_label(head):
                made.append(Thought(start, stop, joined, form, block, head if offers(head) else lead or heading))
                taken = stop
                continue
            lead, led = head, block
            # Without its list a line tells something only if it says what was done.
            if is_label(head) or not SAYS["done"].match(folded(head)):
                continue
            body = head
        made.append(Thought(start, end, body, form, block, lead or heading))
    return tuple(made)


def _is_bold_line(text: str, start: int, end: int) -> bool:
    return text.startswith("**", start) and text[start:end].rstrip().endswith("**") and text[start:end].count("**") == 2


def is_label(head: str) -> bool:
    low = folded(head)
    return head.count(" ") < 2 or SAYS["label"].fullmatch(low) is not None or SAYS["empty"].fullmatch(low) is not None


def offers(lead: str) -> bool:
    """Whether one may choose from what stands below a line."""
    return says("either", lead) and not SAYS["done"].match(folded(lead))


def _with_items(
    text: str, head: str, end: int, following: Sequence[tuple[int, int, Form, int]], longest: int
) -> tuple[str, int]:
    """A lead together with the items below it, if all of them fit."""
    items: list[str] = []
    stop, room = end, longest - len(head) - 2
    block = -1
    for start, last, form, number in following:
        if form != "item":
            break
        body = plain(text[start:last]).rstrip(".;:")
        if number == block:
            items[-1] = f"{items[-1]}. {body}"
        else:
            items.append(body)
        block, stop = number, last
        if sum(map(len, items)) + 2 * len(items) > room:
            return head, end
    return (f"{head}: {'; '.join(items)}", stop) if items else (head, end)
