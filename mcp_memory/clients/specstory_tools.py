"""Tool calls as SpecStory's exports tell them: read back into name, input and result, and told as the clients' own are.

Of a call's input an export shows what a person would look at, and of its result the text that the model saw.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from mcp_memory.clients.claude_tools import (
    SHORT,
    clip,
    failure_text,
    headline,
    interrupted,
    is_own,
    result_text,
    tool_events,
)
from mcp_memory.clients.codex_tools import output_of
from mcp_memory.clients.lines import Origin, one_line
from mcp_memory.clients.replies import PLAN, refusal
from mcp_memory.domain.events import Captured

FENCE = re.compile(r"\s*(```+|~~~+)")
_NAME, _KIND = re.compile(r'data-tool-name="([^"]*)"'), re.compile(r'data-tool-type="([^"]*)"')
_SUMMARY = re.compile(r"<summary>(.*?)</summary>", re.DOTALL)
_NAMED = re.compile(r"\s*Tool use: \*\*(.*?)\*\*(.*)", re.DOTALL)
_END = re.compile(r"\s*(?:</details>\s*)?(?:</tool-use>\s*)?\Z")
_TICKED = re.compile(r"`(.*)`")
_LABEL = re.compile(r"\A(?:[A-Z][\w ]*:\s+)?")
_LABELLED = re.compile(r"\s*^(?:\*\*)?(?:Result|Error):(?:\*\*)?\s*\Z", re.MULTILINE)
_FILE = re.compile(r"\b(?:file|File): (\S+)")
_PATH = re.compile(r" path `(.*?)`(?= pattern `| include `|\s*\Z)")
_PATTERN = re.compile(r" pattern `(.*?)`(?: include `.*`)?\s*\Z", re.DOTALL)
_FIELD = re.compile(r"^- ([\w-]+): `(.*)`$", re.MULTILINE)
WRITTEN = re.compile(
    r"\A(?:The file (.+?) has been (?:updated|created)(?: successfully)?\.?|File created successfully at: ([^\n]+?))"
    r"(?: \(file state is current[^\n]*\))?(?: Here's the result of running `cat -n`[^\n]*)?(?=\s|\Z)"
)
_TODO = re.compile(r"^- \[(.)\] (?:(?:🔥|🌡️|❄️) )?(.*)$", re.MULTILINE)
TODO_LIST = re.compile(r"\*\*Agent task list:\*\*\n- \[")
_STATES = {"X": "completed", "x": "completed", "⚡": "in_progress", "-": "in_progress"}
_QUESTION = re.compile(r"\*\*(.+?)\*\*( _\(select multiple\)_)?[ \t]*")
_OPTION = re.compile(r"- \*\*(.+?)\*\*(?: - (.*))?")
_ANSWER = re.compile(r"^\*\*Answer:\*\*[ \t]*", re.MULTILINE)
_FAILED = re.compile(r"(?:Error: )?Exit code [1-9]\d*\b|<tool_use_error>|\[Request interrupted by user|Cancelled\Z")
_PATCHED = re.compile(r"\*\*(?:Add|Update|Modify|Delete|Move): `(.+)`\*\*")
_TASK = re.compile(r"(?:Task|Updated task) #(\d+)(?: created successfully: (.+))?(.*)")
_SHELLS = frozenset(
    "Bash exec_command shell shell_command run_terminal_cmd run_terminal_command run_terminal_command_v2 "
    "run_shell_command".split()
)
_LISTS = frozenset({"TodoWrite", "update_plan", "write_todos", "todo_write"})
_FIELDS = {"WebFetch": "url", "WebSearch": "query", "Read": "file_path", "MultiEdit": "file_path"}
_EDITORS = frozenset({"Edit", "Write", "NotebookEdit"})
_ASKS = "AskUserQuestion"
#: How it begins what comes back when the user agrees to a plan, before the plan itself.
APPROVED = "User has approved your plan.\n## Approved Plan:\n"
_TASKS = frozenset({"TaskCreate", "TaskUpdate", "TaskList"})
#: Tools whose headline and result Claude Code's own reader makes, and those whose input alone is fenced.
_KNOWN = frozenset({"Bash", "TodoWrite", _ASKS, PLAN, "Grep", "Glob", "Task", "Agent", *_FIELDS, *_EDITORS, *_TASKS})
_CODED = frozenset({"Write"})


def is_bare(line: str) -> bool:
    """Whether there is nothing on the line but a fence, so that it may close one."""
    return not line.strip().strip("`~")


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call. `told` stands beside its name; `lead` and `code` tell its input, plain and fenced."""

    name: str
    kind: str
    told: str
    lead: str
    code: str
    output: str | None

    failed: bool = False

    @classmethod
    def of(cls, lines: list[str]) -> ToolUse:
        text = "\n".join(lines)
        if not lines[0].rstrip().endswith("><details>"):  # Cursor's are escaped
            text = html.unescape(text)
        summary = _SUMMARY.search(text)
        first = summary[1] if summary else text.partition("\n")[0]
        plain = _NAMED.match(lines[0])
        attribute, kind, named = _NAME.search(lines[0]), _KIND.search(lines[0]), _NAMED.match(first)
        name = attribute[1] if attribute else named[1] if named else plain[1] if plain else ""
        told = (named[2] if named else first if summary else "").strip(" •\n")
        body = _END.sub("", text[summary.end() if summary else len(first) :]).strip("\n")
        lead, code, output = _parts(name, body.split("\n"))
        labelled = _LABELLED.search(lead)
        lead = lead[: labelled.start()] if labelled else lead
        lead = f" {told}\n{lead}" if plain and not summary and told else lead  # there the input begins beside the name
        return cls(name, kind[1] if kind else "", told, lead, code, output, "Error" in (labelled or [""])[0])

    def as_listed(self, updates: Counter[str]) -> ToolUse:
        """A change of a task's state, with that state: an export leaves it out, but a task is taken up, and then done.

        `updates` counts how often each task has changed its state.
        """
        if self.name != "TaskUpdate" or not (found := _TASK.match(self.output or "")) or "status" not in found[3]:
            return self
        updates[found[1]] += 1
        return replace(self, told="in_progress" if updates[found[1]] == 1 else "completed")

    def below(self, root: str) -> ToolUse:
        """The call with the file that it wrote as seen from the directory, if it lies below."""
        written = WRITTEN.match(self.output or "") if root and self.name in _EDITORS else None
        path = (written[1] or written[2]) if written else ""
        if not path.startswith(f"{root}/"):
            return self
        return replace(self, output=(self.output or "").replace(path, path[len(root) + 1 :], 1))

    @property
    def is_done(self) -> bool:
        """Whether something came back, as far as the export tells."""
        return self.output is not None or self.name in _LISTS or bool(_ANSWER.search(self.lead))

    def events(self, origin: Origin, tool_id: str) -> list[Captured]:
        """The call and what came of it; what the user typed while refusing it comes after."""
        name, given = self._call()
        if (
            not name or is_own(name, given) or (name in _EDITORS and self.output is None)
        ):  # an edit that is not yet made
            return []
        ended = output_of(self.output or "")
        output = f"Exit code {ended.exit_code}\n{ended.text}" if ended.exit_code else ended.text
        failed = self.failed or bool(_FAILED.match(output)) or refusal(output) is not None
        result = failure_text(output) if failed else self._result(name, given, output)
        task = _TASK.match(output) if name in _TASKS else None
        facts = {"is_interrupt": interrupted(output), "task": task[1] if task else ""}
        told, *more = tool_events(origin, tool_id, name, given, result, (), failed=failed, **facts)
        if name in _KNOWN or name.startswith("mcp__"):
            return [told, *more]
        files = self._files()
        text = f"{self.headline(origin.cwd)}{told.text.removeprefix(name)}"
        return [replace(told, text=text, metadata={**told.metadata, **({"files": files} if files else {})}), *more]

    def headline(self, cwd: str) -> str:
        """One line that names the call, by which it is known in its session."""
        name, given = self._call()
        if name in _KNOWN or name.startswith("mcp__"):
            return headline(name, given, cwd)
        short = clip(one_line(self._shown() or self.lead.strip().partition("\n")[0]), SHORT)
        return f"{name}: {short}" if short else name

    def _files(self) -> list[str]:
        """The files that a tool of another client than Claude Code read or wrote."""
        shown = self._shown()
        told = [shown] if shown and self.kind in ("read", "write") and not any(map(str.isspace, shown)) else []
        return [_here(path) for path in self._patched() or told or _FILE.findall(f"{self.told}\n{self.lead}")[:1]]

    def _patched(self) -> list[str]:
        return _PATCHED.findall(f"{self.lead}\n{self.code}")

    def _shown(self) -> str:
        """What an export shows of the input."""
        shown = ", ".join(self._patched()) or _ticked(self.told) or _LABEL.sub("", self.told) or _ticked(self.lead)
        return shown or ", ".join(_FILE.findall(self.lead))

    def _call(self) -> tuple[str, dict[str, Any]]:
        """Name and input of the call, as far as they are told."""
        name = self.name
        if name in _SHELLS:
            said = self.lead if self.code else _TICKED.sub("", self.lead)
            shown = self.code or _ticked(self.lead) or self._shown()
            return "Bash", {"command": shown, "description": said.strip()}
        if name in _LISTS:
            todos = [{"content": text, "status": _STATES.get(mark, "")} for mark, text in _TODO.findall(self.lead)]
            return "TodoWrite", {"todos": todos}
        if name == _ASKS:
            return name, {"questions": list(_questions(self.lead))}
        if name in _FIELDS:
            return name, {_FIELDS[name]: _here(shown)} if (shown := _ticked(self.lead)) else {}
        if name in ("Grep", "Glob"):
            path, pattern = _PATH.search(self.lead), _PATTERN.search(self.lead)
            return name, {"path": _here(path[1]) if path else "", "pattern": pattern[1] if pattern else ""}
        if name in _EDITORS:
            written = WRITTEN.match(self.output or "")
            return name, {"file_path": (written[1] or written[2]) if written else "", "content": self.code}
        if name in ("Task", "Agent"):
            return name, {"description": self.lead.strip()}
        if name in _TASKS:
            task = _TASK.match(self.output or "")
            fields = (
                {"subject": task[2] or "", "taskId": "" if task[2] else task[1], "status": self.told} if task else {}
            )
            return name, {field: value for field, value in fields.items() if value}
        if name == PLAN and "\n## Approved Plan" in (self.output or ""):
            return name, {"plan": result_text(name, {}, self.output)}
        return name, dict(_FIELD.findall(self.lead)) if name.startswith("mcp__") else {}

    def _result(self, name: str, given: Mapping[str, Any], output: str) -> str:
        if name == _ASKS and (answer := _ANSWER.search(self.lead)):
            answers = _answers(given["questions"], self.lead[answer.end() :].strip())
            return result_text(name, given, {"answers": answers})
        if name in _EDITORS:  # of an edit the lines around it are shown, if anything
            return self.code or result_text("Read", {}, WRITTEN.sub("", output))
        if name in _KNOWN:
            return result_text(name, given, output)
        shown = self._shown()
        lines = [line for line in self.lead.splitlines() if line.strip() and not _PATCHED.fullmatch(line.strip())]
        # What the headline tells is not told again.
        if lines and (_LABEL.sub("", lines[0].strip(" `")) == shown or (not shown and len(lines[0]) <= SHORT)):
            del lines[0]
        changed = [f"{line[0]} {line[1:]}".rstrip() for line in self.code.splitlines() if line[:1] in ("+", "-")]
        return "\n".join(filter(None, (*lines, "\n".join(changed) or self.code, output)))


def _parts(name: str, lines: list[str]) -> tuple[str, str, str | None]:
    """What stands before the first fence, the input if that is fenced, and what came back, if anything did.

    Fences inside these need not pair: so a result is taken to go on to the last fence.
    """
    fences = [place for place, line in enumerate(lines) if FENCE.match(line)]
    if not fences:
        return "\n".join(lines), "", None
    start, last = fences[0], fences[-1] if len(fences) > 1 else len(lines)
    lead, code = lines[:start], list[str]()
    if name in _CODED or lines[start].strip().strip("`~") not in ("", "text"):
        seams = [one for one, other in pairwise(fences) if is_bare(lines[one]) and _opens(lines, one, other)]
        if not seams:
            return "\n".join(lead), "\n".join(lines[start + 1 : last]), None
        end = seams[-1] if name in _CODED else seams[0]
        code, start = lines[start + 1 : end], fences[fences.index(end) + 1]
    return "\n".join(lead), "\n".join(code), "\n".join(lines[start + 1 : last])


def _opens(lines: list[str], one: int, other: int) -> bool:
    """Whether an input ends at the first fence, so that the second begins what came back."""
    between = "".join(lines[one + 1 : other]).strip()
    return between in ("", "Result:", "**Result:**", "**Error:**") and lines[other].strip().strip("`~") in ("", "text")


def _ticked(text: str) -> str:
    found = _TICKED.search(text)
    return found[1] if found else ""


def _here(path: str) -> str:
    """A path of the export as the clients tell it: below the directory it was made in, without a mark of that."""
    return path.removeprefix("./")


def _questions(lead: str) -> Iterator[dict[str, Any]]:
    """The questions with their options."""
    question: dict[str, Any] = {}
    for line in (_ANSWER.split(lead)[0] if lead else "").splitlines():
        if option := _OPTION.fullmatch(line):
            question.setdefault("options", []).append({"label": option[1], "description": option[2] or ""})
        elif asked := _QUESTION.fullmatch(line):
            if question:
                yield question
            question = {"question": asked[1], "multiSelect": bool(asked[2])}
    if question:
        yield question


def _answers(questions: list[Mapping[str, Any]], told: str) -> dict[str, str]:
    """What was answered to each question, of answers that commas join: a label ends where it ends, other words last."""
    answers: dict[str, str] = {}
    for number, question in enumerate(questions, 1):
        labels = sorted((str(option["label"]) for option in question.get("options", ())), key=len, reverse=True)
        chosen = list[str]()
        while told and (label := next((one for one in labels if f"{told}, ".startswith(f"{one}, ")), "")):
            chosen.append(label)
            told = told[len(label) + 2 :].lstrip()
            if not question["multiSelect"]:
                break
        if not chosen or (number == len(questions) and told):
            own, _, rest = (told, "", "") if number == len(questions) else told.partition(", ")
            chosen, told = [*chosen, own], rest
        answers[question["question"]] = ", ".join(filter(None, chosen))
    return answers
