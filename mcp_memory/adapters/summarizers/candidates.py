"""From events to candidate bullets: every sentence worth keeping, with its kind and its exact place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from mcp_memory.adapters.summarizers import cues
from mcp_memory.adapters.summarizers.cues import Kind
from mcp_memory.adapters.summarizers.keywords import without_places
from mcp_memory.adapters.summarizers.sentences import Sentence, sentences
from mcp_memory.adapters.summarizers.toolcalls import Call, call_of, commit_span, error_span, rejection_span
from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.text import has_unspaced_script, one_line, strip_markup

MAX_BULLET = 220
MAX_EXCERPT = 300
_HEAD, _TAIL = 5_000, 3_000
_MAX_TARGETS = 4

# What clients write into a user's message by themselves.
_CLIENT_BLOCK = re.compile(
    r"<(system-reminder|command-name|command-message|command-contents|local-command-stdout|local-command-stderr|local-command-caveat|"
    r"bash-stdout|bash-stderr|hook_context|user-prompt-submit-hook|task-notification|ide_selection|ide_opened_file|environment_context|"
    r"user_instructions|INSTRUCTIONS|permissions instructions)>.*?(?:</\1>|\Z)",
    re.S,
)
_CLIENT_LINE = re.compile(
    r"\s*(?:\[Request interrupted by user[^\]]*\]|\[Image[^\]]*\]|\[image\]|Operation stopped by hook:|Caveat: The messages below|"
    r"Base directory for this skill:|# AGENTS\.md instructions)"
)
_CLIENT_TAIL = re.compile(r"</?command-args>|^If you need specific details from before exiting plan mode[^\n]*", re.M)
_COMMAND = re.compile(r"<command-name>/?([\w:-]+)</command-name>")
_SPEAKER = re.compile(r"([^\W\d_][\w.’' -]{0,30}?): (?=\S)")
_LOG_LINE = re.compile(
    r"\s*(?:at [\w.$<>]+ ?\(|File \"|\d{4}-\d\d-\d\d|\[\d|[│├└•⨯✓✗❯$]|[\w./\\-]+:\d+(?::\d+)?:|Traceback|goroutine \d|"
    r"(?:ERROR|WARN|INFO|DEBUG|FAIL|Error|panic|fatal)\b:?|---|===|npm |\{\")"
)
_CONNECTED = re.compile(r"(?:so|this|that|it|these|those|they|but|which|otherwise|then|both|instead|previously|also|since)\b", re.I)


_SPACED_WORD = re.compile(r"(?<!\S)[\"'(]*[^\W\d_]{2,}[,.;:!?)\"']*(?!\S)")
_KEY_SECTION = re.compile(r"\b(?:cause|fix|fixes|solution|decision|resolution|conclusion|recommendation)\b")
_PLAN = re.compile(r"(?:plan|task|todo)\s*:\s*", re.I)
_ORDINARY = re.compile(r"[a-z]+(?:['’][a-z]+)?(?:[\s,]|$)")
_SHORT_CODE = re.compile(r"\s*```\w*\n([^\n`]{1,120}(?:\n[^\n`]{1,60})?)\n\s*```")
_LINK_ONLY = re.compile(r"\[[^\]]*\]\([^)]*\)\W*$")

# The later an item stands in a list, the less it matters.
_LISTED = {"prose": 0.0, "heading": 0.0, "item": 0.1, "row": 0.2}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible bullet. `order` is its place in the segment, `turn` the user message it follows."""

    event: Event
    start: int
    end: int
    text: str
    kind: Kind
    order: int
    turn: int
    bonus: float = 0.0
    listed: bool = False
    more: tuple[tuple[Event, int, int], ...] = ()


def candidates(events: Sequence[Event]) -> list[Candidate]:
    """All candidates of a segment, in conversation order."""
    named = _names_speakers(events)
    found: list[Candidate] = []
    turn = 0
    for index, event in enumerate(events):
        if not event.says_something or event.event_type is EventType.COMPACTION:
            continue
        if event.role is Role.USER and event.event_type is not EventType.NOTE:
            turn += 1
        last = _is_last_word(events, index)
        for candidate in _of_event(event, turn, last=last, named=named):
            found.append(replace(candidate, order=len(found)))
    return found + _actions(events, len(found), turn)


def _of_event(event: Event, turn: int, *, last: bool, named: bool) -> Iterator[Candidate]:
    if event.event_type is EventType.NOTE:
        return _notes(event, turn)
    if event.role is Role.USER:
        return _said_by_user(event, turn, named)
    if event.role is Role.TOOL or event.event_type is EventType.TOOL_RESULT:
        return _from_tool(event, turn)
    return _said_by_user(event, turn, named) if named else _said_by_assistant(event, turn, last)


def spoken(event: Event) -> str:
    """What a person wrote in a user message: the client's own blocks and lines are blanked out, offsets stay."""
    text = event.text
    if "<" in text:
        text = _CLIENT_BLOCK.sub(_blank, text)
    text = _CLIENT_TAIL.sub(_blank, text)
    line = _CLIENT_LINE.match(text)
    if line:
        stop = text.find("\n", line.end()) if line[0].lstrip().startswith("[") else -1
        blank = len(text) if stop < 0 else stop
        text = " " * blank + text[blank:]
    return text


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def command_name(event: Event) -> str:
    """The slash command a user message consists of, without its slash."""
    match = _COMMAND.search(event.text)
    return match[1] if match else ""


def plain(raw: str) -> str:
    """A stretch of a message as one clean line."""
    text = without_places(strip_markup(raw))
    if text[:1] == "|":
        cells = [cell.strip() for cell in text.strip(" |\n").split("|")]
        text = " — ".join(cell for cell in cells if any(map(str.isalpha, cell)))
    return " ".join(text.split()).lstrip("✅✓❌ ")


def windows(length: int) -> list[tuple[int, int]]:
    """The parts of a long text that are looked at: its head and its tail."""
    return [(0, length)] if length <= _HEAD + _TAIL else [(0, _HEAD), (length - _TAIL, length)]


def _notes(event: Event, turn: int) -> Iterator[Candidate]:
    for sentence in _sentences(event.text):
        yield _candidate(event, sentence.start, sentence.end, f"Note: {plain(event.text[sentence.start : sentence.end])}", Kind.NOTE, turn)


def _said_by_user(event: Event, turn: int, named: bool) -> Iterator[Candidate]:
    text = spoken(event)
    if not text.strip():
        return
    speaker = _speaker(text) if named else ""
    found = _sentences(text)
    if not named and _is_log(text) and (span := error_span(text)):
        yield _candidate(event, *span, f"Error: {plain(text[slice(*span)])}", Kind.ERROR, turn, 1.5)
        found = [sentence for sentence in found if sentence.end <= _log_start(text)]
    first = True
    structured = any(sentence.form == "heading" for sentence in found)
    for group in _joined(text, found):
        start, end, form = group
        start += len(speaker) + 2 if first and speaker and text.startswith(speaker, start) else 0
        body = plain(text[start:end])
        if not _readable(body) or (not named and _LOG_LINE.match(text, start, end)):
            continue
        if form == "heading":
            body = _PLAN.sub("", body)
        kind = Kind.REQUEST if form == "heading" else Kind.SAID if speaker else cues.user_kind(body)
        if kind is Kind.NOISE or (body.endswith(":") and cues.is_label(body)):
            continue
        yield _candidate(event, start, end, _user_text(body, kind, speaker), kind, turn, _user_bonus(first, form, structured) if not speaker else cues.chat_value(body))
        first = False


def _user_bonus(first: bool, form: str, structured: bool) -> float:
    """The opening of a message says what it is about; the parts of a pasted plan matter less."""
    if first:
        return 1.2 if form == "heading" else 0.8
    return -1.2 if form == "heading" else -0.6 if structured else -0.4 if form != "prose" else 0.0


def _readable(body: str) -> bool:
    """Whether it is language rather than a dump, a path or a bare name."""
    if has_unspaced_script(body):
        return True
    return _SPACED_WORD.search(body) is not None and (len(body) < 80 or body.count(" ") * 25 > len(body))


def _user_text(body: str, kind: Kind, speaker: str) -> str:
    if speaker:
        return f"{speaker}: {body}"
    if kind is Kind.REQUEST:
        return f"Asked: {cues.without_politeness(body)}"
    return f"{'Reported' if kind is Kind.REPORT else 'User'}: {body}"


def _said_by_assistant(event: Event, turn: int, last: bool) -> Iterator[Candidate]:
    text = event.text
    section = ""
    found = _sentences(text)
    skip_until = listed = 0
    for index, sentence in enumerate(found):
        if sentence.start < skip_until:
            continue
        start, end = sentence.start, sentence.end
        body = plain(text[start:end])
        if sentence.form == "heading":
            section = body.lower()
            if not cues.is_label(body) and body.count(" ") > 1:
                yield _candidate(event, start, end, body, Kind.HEADING, turn)
            continue
        if body.endswith((":", "：")):
            body, end = _with_items(text, body, end, found[index + 1 :])
            if end == sentence.end and cues.is_label(body):
                continue
        elif sentence.form == "prose" and index + 1 < len(found):
            body, end = _with_next(text, body, start, end, sentence, found[index + 1])
        skip_until = end
        kind = _assistant_kind(body, sentence, section, last)
        if kind is Kind.NOISE or len(body) < 6 or _named_only(body) or _LINK_ONLY.match(text, start, end):
            continue
        listed = listed + 1 if sentence.form in ("item", "row") else 0
        bonus = (0.35 if last else 0.0) + (0.4 if _KEY_SECTION.search(section) else 0.0)
        bonus -= (0.3 if _CONNECTED.match(body) else 0.0) + min(_LISTED[sentence.form] * listed, 0.6)
        found_one = _candidate(event, start, end, _shown(body, kind), kind, turn, bonus)
        yield replace(found_one, listed=bool(listed))


def _named_only(body: str) -> bool:
    """Whether all it says is the name of a file: `File: config.go`."""
    return body.count(" ") < 2 and not has_unspaced_script(body)


def _assistant_kind(body: str, sentence: Sentence, section: str, last: bool) -> Kind:
    kind = cues.assistant_kind(body)
    if kind is Kind.STATED and "cause" in section:
        return Kind.CAUSE
    if kind is Kind.STATED and sentence.form in ("item", "row") and last:
        return Kind.OUTCOME
    return kind


def _shown(body: str, kind: Kind) -> str:
    body = cues.plan_of(body) if kind in (Kind.PLANNED, Kind.DECISION) else cues.finding(cues.unopened(body))
    return body[:1].upper() + body[1:] if _ORDINARY.match(body) else body


def _with_items(text: str, lead: str, end: int, following: Sequence[Sentence]) -> tuple[str, int]:
    """A lead that ends in a colon, told together with the list items it announces."""
    items: list[str] = []
    label = cues.is_label(lead)
    for _, parts in groupby(following, key=lambda part: part.block):
        first, *rest = parts
        stop = rest[-1].end if rest else first.end
        if first.form != "item" or label or len(lead) + sum(map(len, items)) + stop - first.start > MAX_BULLET:
            break
        items.append(plain(text[first.start : stop]).rstrip(".;:"))
        end = stop
    if not items and not label and (code := _SHORT_CODE.match(text, end)):
        items, end = [f"`{plain(code[1]).replace('`', '')}`"], code.end(1)
    lead = lead.rstrip(":： ")
    return (f"{lead}: {'; '.join(items)}" if items else lead), end


def _with_next(text: str, body: str, start: int, end: int, this: Sentence, following: Sentence) -> tuple[str, int]:
    """A sentence together with the next one when that one only makes sense after it."""
    raw = text[following.start : following.end]
    fits = following.block == this.block and following.end - start <= MAX_BULLET and not raw.rstrip().endswith(":")
    if fits and _CONNECTED.match(raw) and cues.assistant_kind(body) not in (Kind.NOISE, Kind.PLANNED):
        return f"{body} {plain(raw)}", following.end
    return body, end


def _from_tool(event: Event, turn: int) -> Iterator[Candidate]:
    call = call_of(event)
    if call is None:
        return
    text = event.text
    if reason := rejection_span(text, call.head):
        body = plain(text[slice(*reason)])
        kind = cues.user_kind(body)
        if kind is not Kind.NOISE:
            yield _candidate(event, *reason, _user_text(body, kind, ""), kind, turn)
    elif call.verb == "Ran" and (subject := commit_span(text, call.head)):
        yield _candidate(event, *subject, f"Committed: {plain(text[slice(*subject)])}", Kind.OUTCOME, turn, 0.3)
    elif call.failed and call.verb == "Ran" and (span := error_span(text, call.head)):
        yield _candidate(event, *span, f"Error: {plain(text[slice(*span)])}", Kind.ERROR, turn, -0.4)


def _actions(events: Sequence[Event], order: int, turn: int) -> list[Candidate]:
    """What the tools did, by verb, for segments in which little was said."""
    done: dict[str, dict[str, tuple[Event, Call]]] = {}
    for event in events:
        if event.event_type is EventType.TOOL_RESULT and (call := call_of(event)) and call.target.strip("{}[]"):
            done.setdefault(call.verb, {}).setdefault(call.target, (event, call))
    found = []
    for verb in sorted(done, key=["Edited", "Ran", "Fetched", "Used", "Searched", "Read"].index):
        targets = list(done[verb].values())[:_MAX_TARGETS]
        text = _action_text(verb, [call for _, call in targets], len(done[verb]))
        spans = [(event, 0, min(call.head, MAX_EXCERPT)) for event, call in targets]
        event, start, end = spans[0]
        bonus = 0.3 if verb == "Edited" else 0.0
        found.append(Candidate(event, start, end, text, Kind.DID, order + len(found), turn, bonus, more=tuple(spans[1:])))
    return found


def _action_text(verb: str, calls: Sequence[Call], total: int) -> str:
    names = [one_line(plain(call.target if verb != "Used" else f"{call.tool} {call.target}"), 60) for call in calls]
    if verb in ("Ran", "Searched"):
        names = [f"`{name.replace('`', '')}`" for name in names]
    rest = f" and {total - len(calls)} more" if total > len(calls) else ""
    return f"{verb}{' for' if verb == 'Searched' else ''} {', '.join(name for name in names if name)}{rest}"


def _candidate(event: Event, start: int, end: int, text: str, kind: Kind, turn: int, bonus: float = 0.0) -> Candidate:
    if end - start > MAX_EXCERPT:
        cut = event.text.rfind(" ", start, start + MAX_EXCERPT)
        end = cut if cut > start + MAX_EXCERPT // 2 else start + MAX_EXCERPT
    text = text if cues.is_question(text) or text.endswith("!") else text.rstrip(" .:;,：。")
    return Candidate(event, start, end, one_line(text, MAX_BULLET), kind, 0, turn, bonus)


def _sentences(text: str) -> list[Sentence]:
    return [sentence for low, high in windows(len(text)) for sentence in sentences(text, low, high)]


def _joined(text: str, found: Iterable[Sentence]) -> Iterator[tuple[int, int, str]]:
    """Neighbouring short sentences of one paragraph as one, since a user's thought rarely fits into one sentence."""
    for _, group in groupby(found, key=lambda sentence: sentence.block):
        parts = list(group)
        while parts:
            count = len(parts)
            while count > 1 and parts[count - 1].end - parts[0].start > MAX_BULLET - 20:
                count -= 1
            yield parts[0].start, parts[count - 1].end, parts[0].form
            parts = parts[count:]


def _is_log(text: str) -> bool:
    lines = text[:4_000].splitlines()
    return sum(1 for line in lines if _LOG_LINE.match(line)) * 3 >= len(lines) and len(lines) > 1


def _log_start(text: str) -> int:
    """Where the first line of a pasted log begins."""
    at = 0
    for line in text.splitlines(keepends=True):
        if _LOG_LINE.match(line):
            return at
        at += len(line)
    return at


def _speaker(text: str) -> str:
    match = _SPEAKER.match(text)
    return match[1] if match else ""


def _names_speakers(events: Sequence[Event]) -> bool:
    """Whether messages open with `Name: `, as in chats between people."""
    said = [event.text for event in events if event.role in (Role.USER, Role.ASSISTANT) and event.says_something]
    names = [name for name in map(_speaker, said) if name]
    return len(said) > 1 and len(names) * 3 >= len(said) * 2 and len(set(names)) * 2 <= max(len(names), 4)


def _is_last_word(events: Sequence[Event], index: int) -> bool:
    """Whether an assistant message ends its turn: that is where outcomes are told."""
    for event in events[index + 1 :]:
        if event.role is Role.USER:
            return True
        if event.says_something:
            return False
    return True
