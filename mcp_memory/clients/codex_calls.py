"""Tool calls in a Codex rollout: from the call to what came of it, some lines or some reads later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_memory.clients.account import Account, object_of, text_of
from mcp_memory.clients.codex_tools import (
    Output,
    arguments,
    call_text,
    called,
    command_text,
    has_failed,
    is_own,
    output_of,
    touched,
)
from mcp_memory.clients.lines import Earlier, Unreadable, digest, keep_newest
from mcp_memory.clients.port import Told
from mcp_memory.domain.events import EventType, Role

_PENDING = 64
_Call = tuple[str, dict[str, Any]]
_NONE: _Call = ("", {})


class Calls:
    """The calls that have not been told yet: what was asked, and what a process that still runs has printed.

    The client's own record of a call comes before the model's view of it, and before the hook: only it says how a
    command ended, and has all that a long one printed. Of all of these the places of their lines are kept.
    """

    def __init__(self, memory: dict[str, Any], earlier: Earlier) -> None:
        self._memory = memory
        self._earlier = earlier
        self._told: list[str] = []

    def settle(self) -> None:
        """Forget the calls that a line told: only now, so that a line that is read again reads the same."""
        for call_id in self._told:
            self._calls.pop(call_id, None)
        self._told.clear()

    def item(self, item: Mapping[str, Any], account: Account) -> list[Told]:
        """A line of the conversation: a call, or what the model was shown of its result."""
        kind = text_of(item, "type")
        if kind in ("function_call", "custom_tool_call", "local_shell_call"):
            self._remember(item)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            return self._shown(item, account)
        elif kind == "web_search_call":
            return _searched(item, account)
        return []

    def record(self, item: Mapping[str, Any], account: Account) -> list[Told]:
        """The client's own record of a call that has ended."""
        call_id = text_of(item, "id") or text_of(item, "call_id")
        kind = item.get("type")
        if kind == "CommandExecution":
            code = item.get("exit_code")
            printed = text_of(item, "aggregated_output") or text_of(item, "stdout") + text_of(item, "stderr")
            output = Output(printed, code if isinstance(code, int) else 0)
            made = "Bash", {"command": command_text(item.get("command"))}
        elif kind == "McpToolCall":
            output = output_of(object_of(item, "result") or object_of(item, "error"))
            made = f"mcp__{text_of(item, 'server')}__{text_of(item, 'tool')}", dict(object_of(item, "arguments"))
        elif kind == "FileChange" and call_id in self._calls:
            failed = item.get("status") == "failed"
            output, made = Output(text_of(item, "stdout") + text_of(item, "stderr"), failed=failed), _NONE
        else:
            return []
        return self._tell(call_id, output, account, made)

    def unfinished(self, account: Account) -> list[Told]:
        """A process that outlives its turn is told with what it has printed so far."""
        running = self._memory.get("running", {})
        ended = [(call_id, self._output(places)) for call_id, places in running.values() if call_id in self._calls]
        running.clear()
        return [told for call_id, printed in ended for told in self._tell(call_id, Output(printed), account)]

    @property
    def _calls(self) -> dict[str, int]:
        calls: dict[str, int] = self._memory.setdefault("calls", {})
        return calls

    def _call(self, call_id: str) -> _Call:
        """Name and input of a call, from the line that made it."""
        for item in self._earlier.at(self._calls.get(call_id)):
            if call_id in (text_of(item, "call_id"), text_of(item, "id")):
                given = item.get("arguments", item.get("input", object_of(item, "action")))
                name = text_of(item, "name") or text_of(item, "type")
                return called(name, text_of(item, "namespace"), arguments(given))
        return _NONE

    def _output(self, places: list[int]) -> str:
        """What a process printed, from the lines that showed it."""
        return "".join(output_of(item.get("output")).text for place in places for item in self._earlier.at(place))

    def _remember(self, item: Mapping[str, Any]) -> None:
        call_id = text_of(item, "call_id") or text_of(item, "id")
        if not call_id:
            raise Unreadable("call_id is missing")
        self._calls[call_id] = self._earlier.keep(item)
        keep_newest(self._calls, _PENDING)

    def _shown(self, item: Mapping[str, Any], account: Account) -> list[Told]:
        call_id = text_of(item, "call_id")
        if not call_id:
            raise Unreadable("call_id is missing")
        output = output_of(item.get("output"))
        name, given = self._call(call_id)
        running = self._memory.setdefault("running", {})
        process = output.running or (str(given.get("session_id", "")) if name == "write_stdin" else "")
        if process and (output.running or process in running):
            return self._printed(process, call_id, item, output, account)
        return self._tell(call_id, output, account) if name else []

    def _printed(
        self, process: str, call_id: str, item: Mapping[str, Any], output: Output, account: Account
    ) -> list[Told]:
        """A process that is still running, or was when it was last looked at."""
        running: dict[str, tuple[str, list[int]]] = self._memory["running"]
        first, places = running.get(process, (call_id, []))
        if len(places) < _PENDING:
            places = [*places, self._earlier.keep(item)]
        if call_id != first:
            self._calls.pop(call_id, None)
        if output.running and (first in self._calls):
            running[process] = first, places
            keep_newest(running, _PENDING)
            return []
        running.pop(process, None)
        ended = Output(self._output(places), output.exit_code)
        return self._tell(first, ended, account) if first in self._calls else []

    def _tell(self, call_id: str, output: Output, account: Account, made: _Call = _NONE) -> list[Told]:
        """The event of a call; `made` is what its record says of it, if no line made it."""
        name, given = self._call(call_id) if call_id in self._calls else made
        self._told.append(call_id)
        if not name or is_own(name, given):
            return []
        cwd = account.cwd
        told = account.tell(
            f"tool:{call_id}",
            EventType.TOOL_RESULT,
            Role.TOOL,
            call_text(name, given, output, cwd),
            (call_id,),
            tool=name,
            files=touched(name, given, cwd),
            failed=has_failed(name, output),
            is_interrupt=output.stopped,
        )
        return [told]


def _searched(item: Mapping[str, Any], account: Account) -> list[Told]:
    action = object_of(item, "action")
    asked = text_of(action, "query") or text_of(action, "url")
    if not asked:
        return []
    name = text_of(item, "id") or f"{account.ms}:{digest(asked)}"
    return [account.tell(f"tool:{name}", EventType.TOOL_RESULT, Role.TOOL, f"web_search: {asked}", tool="web_search")]
