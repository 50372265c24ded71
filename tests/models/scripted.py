"""A model that says what a test wants, behind the wire formats of Anthropic and OpenAI, on loopback."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-test-0123456789abcdef"


@dataclass(frozen=True)
class Asked:
    """One request as the server saw it."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def anthropic(self) -> bool:
        return self.path.endswith("/messages")

    @property
    def model(self) -> str:
        return str(self.body["model"])

    @property
    def system(self) -> str:
        return str(self.body["system"] if self.anthropic else self.body["messages"][0]["content"])

    @property
    def prompt(self) -> str:
        return str(self.body["messages"][-1]["content"])

    @property
    def structured(self) -> bool:
        return "tools" in self.body or "response_format" in self.body

    @property
    def material(self) -> str:
        match = re.search(r"<(material-\w+)>\n(.*)\n</\1>", self.prompt, re.S)
        assert match, self.prompt
        return match[2]

    @property
    def earlier(self) -> str:
        match = re.search(r"<(earlier-\w+)>\n(.*)\n</\1>", self.prompt, re.S)
        return match[2] if match else ""

    @property
    def form(self) -> str:
        """What is asked for: section, merge, record or prose."""
        if '"key_points"' in self.system:
            return "record"
        return "section" if '"quote"' in self.system else "merge" if '"sources"' in self.system else "prose"


@dataclass(frozen=True)
class Http:
    """An answer that is an error."""

    status: int
    message: str = "no"
    headers: dict[str, str] = field(default_factory=dict)
    code: str | None = None


@dataclass(frozen=True)
class Said:
    """An answer in words instead of the form that was asked for, or one that was cut off."""

    text: str
    cut_off: bool = False


@dataclass(frozen=True)
class Raw:
    """A good answer in all but what it says, byte for byte."""

    text: str
    content_type: str = "application/json"


HANG, DROP = object(), object()
Respond = Callable[[Asked], Any]


class Scripted:
    """Answers every request by calling `respond`; keeps what was asked."""

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.asked: list[Asked] = []
        self.release = threading.Event()
        self.port = 0

    @property
    def anthropic_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def url(self, kind: str) -> str:
        return self.anthropic_url if kind == "anthropic" else self.openai_url


@contextmanager
def scripted(respond: Respond) -> Iterator[Scripted]:
    model = Scripted(respond)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            model.asked.append(asked)
            answer = model.respond(asked)
            if answer is HANG:
                model.release.wait(30)
            elif answer is not DROP:
                self._send(*_wire(asked, answer))

        def _send(self, status: int, headers: dict[str, str], document: Any) -> None:
            data = (document if isinstance(document, str) else json.dumps(document)).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="scripted model")
    thread.start()
    try:
        yield model
    finally:
        model.release.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _wire(asked: Asked, answer: Any) -> tuple[int, dict[str, str], Any]:
    if isinstance(answer, Raw):
        return 200, {"content-type": answer.content_type}, answer.text
    if isinstance(answer, Http):
        error = {"type": "error", "message": answer.message, "code": answer.code}
        return answer.status, answer.headers, {"type": "error", "error": error}
    said = answer if isinstance(answer, Said) else None
    usage = (len(asked.system + asked.prompt) // 4, 50)
    if not asked.anthropic:
        text = said.text if said else json.dumps(answer)
        reason = "length" if said and said.cut_off else "stop"
        choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": text}}
        counted = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
        frame = {"id": "c1", "object": "chat.completion", "created": 1, "model": asked.model}
        return 200, {}, {**frame, "choices": [choice], "usage": counted}
    block: dict[str, Any] = {"type": "text", "text": said.text if said else json.dumps(answer)}
    if not said and asked.structured:
        block = {"type": "tool_use", "id": "t1", "name": "summary", "input": answer}
    reason = "max_tokens" if said and said.cut_off else "end_turn"
    frame = {"id": "m1", "type": "message", "role": "assistant", "model": asked.model, "stop_sequence": None}
    counted = {"input_tokens": usage[0], "output_tokens": usage[1]}
    return 200, {}, {**frame, "content": [block], "stop_reason": reason, "usage": counted}


def honest(asked: Asked) -> dict[str, Any]:
    """What a plain, obedient model would say: some of the material's own sentences."""
    if asked.form == "prose":
        return {"summary": " ".join([asked.earlier, *asked.material.split()[:60]]).strip()}
    if asked.form == "merge":
        points = re.findall(r"^\[(\d+)\] (.*)$", asked.material, re.M)
        bullets = [{"text": text, "sources": [int(number)]} for number, text in points[:8]]
        return {"title": "What the points of this period tell", "bullets": bullets, "keywords": ["one", "two", "three"]}
    said = re.findall(r"^\[\d+\] (?:user|assistant): ([^\n]{20,200})", asked.material, re.M)
    if asked.form == "record":
        points = [f"It was said: {text[:120]}" for text in said[:5]]
        task = {"task": "Write the release notes of what was said", "owner": "user", "due": ""}
        lists = {"key_points": points, "decisions": said[:1], "action_items": [task], "unresolved": []}
        return {"summary": f"The model tells of {len(said)} messages.", **lists, "entities": ["one", "two"]}
    bullets = [{"text": f"It was said: {text[:120]}", "quote": text} for text in said[:5]]
    return {"title": "What was said in this conversation", "bullets": bullets, "keywords": ["one", "two", "three"]}


def in_turn(*answers: Any, then: Respond = honest) -> Respond:
    """Each answer once, in order, then those of another."""
    left = list(answers)

    def respond(asked: Asked) -> Any:
        answer = left.pop(0) if left else then
        return answer(asked) if callable(answer) else answer

    return respond
