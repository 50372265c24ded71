"""`pick`: search as you type in the terminal, with what was said around each hit; what is chosen is printed or copied.

The picture is drawn on stderr, so that stdout holds the citation alone. Memory is searched beside the keyboard: one
search at a time, and what was found for words that have changed meanwhile is not shown.
"""

from __future__ import annotations

import argparse
import base64
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from mcp_memory import config
from mcp_memory.app import App
from mcp_memory.domain.events import Event, parse_ulid
from mcp_memory.domain.nodes import event_grip_id
from mcp_memory.domain.quoting import quoted, quoted_name, unposed_ids
from mcp_memory.domain.text import clean, safe
from mcp_memory.domain.toc import parse_node_id
from mcp_memory.errors import MemoryFault, UsageError
from mcp_memory.navigate.answers import Answers
from mcp_memory.navigate.browse import expand_grip, node_of
from mcp_memory.navigate.shapes import hit_shape
from mcp_memory.search.hits import Hit
from mcp_memory.surfaces.output import Answer

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

_HITS = 50
#: How many messages stand before and after a hit.
_BEFORE, _AFTER = 2, 3
#: How many characters are shown of a message before and after it, and of the hit itself.
_BRIEF, _NEIGHBOUR, _WHOLE = 160, 400, 4_000
#: How many lines of the hit are in sight, however long the messages before it are.
_IN_SIGHT = 4
#: How much of a message before the words that matter is shown.
_LEAD = 300
#: Characters of the words in a citation.
_CITED = 600
#: From this many columns on the preview stands beside the list, else below it.
_WIDE = 110
_KEYS = "↑↓ move · Enter print · Ctrl-Y copy · Esc leave"
_STYLES = {"chosen": "reverse", "match": "bold fg:ansiyellow", "who": "fg:ansicyan", "dim": "fg:ansibrightblack"}


async def pick(app: App, options: argparse.Namespace) -> Answer:
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or config.environment().get("TERM") == "dumb":
        raise UsageError("`pick` needs a terminal to type in. Without one, use `mcp-memory search QUERY`.")
    answers = app.answers
    await answers.scope(options.project)
    picker = Picker(answers, options.project, options.query or "")
    choice = await _chosen(picker)
    if choice is None:
        return 1
    hit, copied = choice
    if copied or options.copy:
        # The terminal itself puts it on the clipboard, over SSH as well.
        sys.stderr.write(f"\x1b]52;c;{base64.b64encode(citation(hit, answers).encode()).decode()}\x07")
        sys.stderr.write(f"Copied the words of {grip_of(hit)}.\n")
        sys.stderr.flush()
        if not options.json:
            return 0
    if not options.json:
        return citation(hit, answers)
    node = await node_of(answers.reader, hit.project, parse_node_id(hit.node_id)[0]) if hit.node_id else None
    return hit_shape(hit, node.title if node else hit.title)


def grip_of(hit: Hit) -> str:
    """The id that opens the words of a hit."""
    return hit.grip_id or event_grip_id(*parse_ulid(hit.event_ids[0]))


def citation(hit: Hit, answers: Answers) -> str:
    """The words, and who said them, when, in which session, and where they stand."""
    who = f"{hit.role or hit.kind}, {answers.renderer.moment(hit.start_ms)}"
    session = f", session {quoted_name(hit.session_id)}" if hit.session_id else ""
    words = unposed_ids(safe(hit.passage.window(_CITED)))
    return f"“{words}”\n— {who}{session}, project {safe(hit.project)}, {grip_of(hit)}"


@dataclass(frozen=True, slots=True)
class Conversation:
    """A hit and the messages around it: of each, who said it when, and the words."""

    place: str
    before: Sequence[tuple[str, str]] = ()
    cited: Sequence[tuple[str, str]] = ()
    after: Sequence[tuple[str, str]] = ()
    matched: Sequence[str] = ()

    def drawn(self, width: int) -> tuple[StyleAndTextTuples, int]:
        """Lines of a width, and the number of the one up to which the hit must be in sight."""
        drawn: StyleAndTextTuples = [("class:dim", f"{self.place}\n\n")]
        count, sight = 2, 0
        for said, is_hit in ((self.before, False), (self.cited, True), (self.after, False)):
            for head, words in said:
                lines = [line for part in words.splitlines() for line in textwrap.wrap(part, width) or [""]]
                drawn.append(("class:who", f"{head}\n"))
                for line in lines:
                    drawn += [*(marked(line, self.matched) if is_hit else [("class:dim", line)]), ("", "\n")]
                drawn.append(("", "\n"))
                sight = count + min(len(lines), _IN_SIGHT) if is_hit else sight
                count += len(lines) + 2
        return drawn, sight


@dataclass(slots=True)
class Picker:
    """What is typed, what was found for it, and which hit is chosen."""

    answers: Answers
    project: str | None
    typed: str
    hits: Sequence[Hit] = ()
    at: int = 0
    note: str = ""
    #: Called when there is something new to show, and with the hit that is taken and whether it is to be copied.
    redraw: Callable[[], object] = lambda: None
    leave: Callable[[tuple[Hit, bool]], object] = lambda choice: None
    #: What is asked for while the search goes on: to copy the first hit (True), or to print it (False).
    _wanted: bool | None = None
    _sought: str = ""
    _previews: dict[str, Conversation] = field(default_factory=dict)
    _news: anyio.Event = field(default_factory=anyio.Event)

    @property
    def chosen(self) -> Hit | None:
        return self.hits[self.at] if self.at < len(self.hits) else None

    def type(self, text: str) -> None:
        self.typed, self._wanted = text, None
        self._news.set()

    def take(self, *, copied: bool) -> None:
        """Leave with the chosen hit; where that is still being looked for, once it is found."""
        if self.typed != self._sought:
            self._wanted = copied
        elif self.chosen:
            self.leave((self.chosen, copied))

    def move(self, by: int) -> None:
        self.at = max(0, min(self.at + by, len(self.hits) - 1))
        self._news.set()

    async def work(self) -> None:
        """Look for what is typed and read what stands around the chosen hit, as long as the picker is open."""
        self._news.set()
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            if self.typed != self._sought:
                await self.find(self.typed)
            hit = self.chosen
            if hit and hit.id not in self._previews:
                self._previews[hit.id] = await self._read(hit)
            self.redraw()

    async def find(self, text: str) -> None:
        hits: Sequence[Hit] = ()
        note = ""
        try:
            if text.strip():
                found, note = await self.answers.search(text, self.project, kind="event", limit=_HITS)
                if found.elsewhere:
                    note = f"{note} Other projects have some: `mcp-memory pick --project '*'`."
                hits = [hit for hit in found.hits if hit.event_ids]
        except MemoryFault as error:
            note = error.typed
        if text == self.typed:
            self.hits, self.at, self.note, self._sought = hits, 0, safe(note), text
            self.redraw()
            if self._wanted is not None:
                wanted, self._wanted = self._wanted, None
                self.take(copied=wanted)

    async def _read(self, hit: Hit) -> Conversation:
        """A hit with what was said around it."""
        try:
            opened = await self.answers.at_once(
                lambda here: expand_grip(here.reader, grip_of(hit), _BEFORE, _AFTER, spoken=True)
            )
        except MemoryFault as error:
            return Conversation(safe(error.typed))
        record = opened.record
        place = f"{safe(hit.project)} · session {quoted_name(hit.session_id or '')}"
        start = max(0, hit.passage.place - _LEAD)
        words = "…" * (start > 0) + clean(record.cited.text[start : start + _WHOLE]).strip() if record.cited else ""
        return Conversation(
            place,
            [(self._head(event), safe(event.text, _BRIEF)) for event in record.before],
            [(self._head(record.cited), words)] if record.cited else [],
            [(self._head(event), safe(event.text, _NEIGHBOUR)) for event in record.after],
            hit.matched,
        )

    def _head(self, event: Event) -> str:
        return f"{event.role} {self.answers.renderer.moment(event.timestamp_ms)}"

    def preview(self, width: int) -> tuple[StyleAndTextTuples, int]:
        """What stands around the chosen hit, and the line up to which it must be in sight."""
        hit = self.chosen
        conversation = self._previews.get(hit.id) if hit else None
        return conversation.drawn(width) if conversation else ([], 0)

    def rows(self, width: int) -> StyleAndTextTuples:
        """A line for each hit: when, who, and the words."""
        lines: StyleAndTextTuples = []
        for at, hit in enumerate(self.hits):
            head = f"{self.answers.renderer.moment(hit.start_ms)[:10]} {hit.role:<9} "
            words = quoted(hit.passage.window(max(20, width - len(head) - 4)))
            if at == self.at:
                lines.append(("class:chosen", f"▸ {head}{words}"))
            else:
                lines += [("", "  "), ("class:who", head), *marked(words, hit.matched)]
            lines.append(("", "\n"))
        return lines[:-1]

    def status(self) -> StyleAndTextTuples:
        if not self.typed.strip():
            told = "Type what you are looking for."
        elif self.typed != self._sought:
            told = "Searching…"
        else:
            many = len(self.hits)
            told = f"{self.at + 1} of {many}" if many else "Nothing was found; other words may help."
        return [("class:dim", f"{told}  {_KEYS}  {self.note}")]


def marked(text: str, words: Sequence[str]) -> StyleAndTextTuples:
    """The text, with the words that were looked for in a style of their own."""
    stems = [re.escape(word) for word in words if word.strip()]
    if not stems:
        return [("", text)]
    parts = re.split(rf"((?<!\w)(?:{'|'.join(stems)})\w*)", text, flags=re.IGNORECASE)
    return [("class:match" if at % 2 else "", part) for at, part in enumerate(parts) if part]


async def _chosen(picker: Picker) -> tuple[Hit, bool] | None:
    """The hit that the user takes, and whether it is to be copied; None if none is."""
    application = _application(picker)
    picker.redraw, picker.leave = application.invalidate, lambda choice: application.exit(result=choice)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(picker.work, name="picker")
        choice = await application.run_async()
        tasks.cancel_scope.cancel()
    return choice


def _keys(picker: Picker) -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    def moving(by: int) -> Callable[[KeyPressEvent], None]:
        return lambda event: picker.move(by)

    def taking(*, copied: bool) -> Callable[[KeyPressEvent], None]:
        return lambda event: picker.take(copied=copied)

    for names, by in ((("up", "c-p"), -1), (("down", "c-n"), 1), (("pageup",), -10), (("pagedown",), 10)):
        for name in names:
            keys.add(name)(moving(by))
    keys.add("enter")(taking(copied=False))
    keys.add("c-y")(taking(copied=True))
    for name in ("escape", "c-c", "c-d"):
        keys.add(name, eager=True)(lambda event: event.app.exit(result=None))
    return keys


def _application(picker: Picker) -> Application[tuple[Hit, bool] | None]:
    """The picture."""
    from prompt_toolkit.application import Application
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.data_structures import Point
    from prompt_toolkit.document import Document
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.layout import ConditionalContainer, Dimension, HSplit, Layout, VSplit, Window
    from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
    from prompt_toolkit.layout.processors import BeforeInput
    from prompt_toolkit.output import create_output
    from prompt_toolkit.styles import Style

    screen = create_output(stdout=sys.stderr)

    def columns() -> int:
        return screen.get_size().columns

    typed = Buffer(
        document=Document(picker.typed), multiline=False, on_text_changed=lambda buffer: picker.type(buffer.text)
    )
    is_wide = Condition(lambda: columns() >= _WIDE)
    listed = Window(
        FormattedTextControl(
            lambda: picker.rows(columns() // 2 if is_wide() else columns()),
            get_cursor_position=lambda: Point(0, picker.at),
            show_cursor=False,
        ),
        height=Dimension(weight=1),
        width=Dimension(weight=1),
    )

    def preview_width() -> int:
        return max(20, columns() // 2 - 2 if is_wide() else columns() - 1)

    def preview() -> Window:
        control = FormattedTextControl(
            lambda: picker.preview(preview_width())[0],
            get_cursor_position=lambda: Point(0, picker.preview(preview_width())[1]),
            show_cursor=False,
        )
        return Window(control, height=Dimension(weight=1), width=Dimension(weight=1))

    def rule() -> Window:
        return Window(char="─", style="class:dim", height=1)

    body = HSplit(
        [
            Window(BufferControl(typed, input_processors=[BeforeInput("› ", "class:who")]), height=1),
            rule(),
            VSplit(
                [
                    listed,
                    ConditionalContainer(Window(char="│", style="class:dim", width=1), is_wide),
                    ConditionalContainer(preview(), is_wide),
                ]
            ),
            ConditionalContainer(HSplit([rule(), preview()]), ~is_wide),
            Window(FormattedTextControl(picker.status), height=1),
        ]
    )
    application: Application[tuple[Hit, bool] | None] = Application(
        layout=Layout(body), key_bindings=_keys(picker), full_screen=True, style=Style.from_dict(_STYLES), output=screen
    )
    # Escape alone is told from the keys that begin with it by a short pause.
    application.ttimeoutlen = 0.05
    return application
