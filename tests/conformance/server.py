"""The server as it is shipped, with what the protocol's conformance suite looks for mounted beside its own tools.

The suite calls tools, prompts and resources by fixed names and knows no header to send a token in. So the test build
serves over the same HTTP surface behind the same guard, and only hands the guard the token that the suite lacks.
"""

from __future__ import annotations

import base64
import struct
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Message, UserMessage
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_memory.config import Settings
from mcp_memory.surfaces.http import PATH, http_app, listen, token_of
from mcp_memory.surfaces.server import Memory, build_server

Ctx = Context[Any, Any]
Answer = CallToolResult | InputRequiredResult


def build(memory: Memory) -> MCPServer[Any]:
    """The shipped server with the suite's fixtures."""
    server = build_server(memory)
    for content in (simple_text, image_content, audio_content, embedded_resource, multiple_content_types):
        _add(server, content, f"test_{content.__name__}")
    for behaviour in (
        error_handling, tool_with_logging, logging_tool, tool_with_progress, reconnection, sampling, elicitation,
        elicitation_sep1034_defaults, elicitation_sep1330_enums, missing_capability, streaming_elicitation,
        custom_headers,
    ):  # fmt: skip
        _add(server, behaviour, f"test_{behaviour.__name__}")
    for asking in (
        elicitation_input, sampling_input, list_roots, request_state, multiple_inputs, multi_round, tampered_state,
        capabilities,
    ):  # fmt: skip
        _add(server, asking, f"test_input_required_result_{asking.__name__.removesuffix('_input')}")
    _replace_schemas(server)
    _mount_resources(server)
    _mount_prompts(server)
    return server


def _add(server: MCPServer[Any], tool: Callable[..., Any], name: str) -> None:
    server.add_tool(tool, name=name, description="A fixture of the conformance suite", structured_output=False)


def text(words: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=words)])


def pixel() -> str:
    """A red pixel as a PNG file, in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def sound() -> str:
    """A WAV file of one sample, in base64."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8_000, 8_000, 1, 8)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", 2) + b"\x80\x80"
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(body)) + body).decode()


def document(uri: str, kind: str, words: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=kind, text=words))


def simple_text() -> CallToolResult:
    return text("This is a simple text response for testing.")


def image_content() -> CallToolResult:
    return CallToolResult(content=[ImageContent(data=pixel(), mime_type="image/png")])


def audio_content() -> CallToolResult:
    return CallToolResult(content=[AudioContent(data=sound(), mime_type="audio/wav")])


def embedded_resource() -> CallToolResult:
    found = document("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    return CallToolResult(content=[found])


def multiple_content_types() -> CallToolResult:
    found = document("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    picture = ImageContent(data=pixel(), mime_type="image/png")
    return CallToolResult(content=[TextContent(text="Multiple content types test:"), picture, found])


def error_handling() -> CallToolResult:
    raise ToolError("This tool intentionally returns an error for testing")


async def tool_with_logging(ctx: Ctx) -> CallToolResult:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(words)
        await anyio.sleep(0.05)
    return text("Three messages were logged.")


async def logging_tool(ctx: Ctx) -> CallToolResult:
    await ctx.info("A request that asks for no log gets none.")
    return text("One message was logged.")


async def tool_with_progress(ctx: Ctx) -> CallToolResult:
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await anyio.sleep(0.05)
    return text("All was done.")


async def reconnection(ctx: Ctx) -> CallToolResult:
    await ctx.close_sse_stream()
    await anyio.sleep(0.1)
    return text("The stream was closed in between.")


async def sampling(prompt: str, ctx: Ctx) -> CallToolResult:
    asked = SamplingMessage(role="user", content=TextContent(text=prompt))
    made = await ctx.session.create_message([asked], max_tokens=100, related_request_id=ctx.request_id)
    return text(f"LLM response: {made.content.text if isinstance(made.content, TextContent) else made.content}")


async def _elicited(ctx: Ctx, message: str, fields: dict[str, Any], required: tuple[str, ...] = ()) -> str:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    found = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return f"action={found.action}, content={found.content}"


async def elicitation(message: str, ctx: Ctx) -> CallToolResult:
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return text(f"User response: {await _elicited(ctx, message, fields, ('username', 'email'))}")


async def elicitation_sep1034_defaults(ctx: Ctx) -> CallToolResult:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return text(f"Elicitation completed: {await _elicited(ctx, 'Please check the defaults', fields)}")


async def elicitation_sep1330_enums(ctx: Ctx) -> CallToolResult:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return text(f"Elicitation completed: {await _elicited(ctx, 'Please choose', fields)}")


def missing_capability(ctx: Ctx) -> CallToolResult:
    if ctx.client_capabilities is None or ctx.client_capabilities.sampling is None:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "The client must declare sampling.", needed)
    return text("The client can sample.")


def streaming_elicitation(ctx: Ctx) -> Answer:
    return asks(ctx, {"user_name": form("What is your name?", "name")}) or text("Hello.")


def custom_headers(region: str) -> CallToolResult:
    return text(region)


def form(message: str, field: str, kind: str = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt: str, most: int) -> CreateMessageRequest:
    asked = SamplingMessage(role="user", content=TextContent(text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[asked], max_tokens=most))


def asks(ctx: Ctx, requests: dict[str, Any], state: str | None = None) -> InputRequiredResult | None:
    """What still has to be asked; None if the client has answered all of it."""
    if requests.keys() <= (ctx.input_responses or {}).keys():
        return None
    return InputRequiredResult(input_requests=requests, request_state=state)


def told(ctx: Ctx, key: str) -> str:
    return (ctx.input_responses or {})[key].model_dump_json()


def elicitation_input(ctx: Ctx) -> Answer:
    return asks(ctx, {"user_name": form("What is your name?", "name")}) or text(f"Hello, {told(ctx, 'user_name')}!")


def sampling_input(ctx: Ctx) -> Answer:
    asked = asks(ctx, {"capital_question": sample("What is the capital of France?", 100)})
    return asked or text(told(ctx, "capital_question"))


def list_roots(ctx: Ctx) -> Answer:
    return asks(ctx, {"client_roots": ListRootsRequest()}) or text(told(ctx, "client_roots"))


def request_state(ctx: Ctx) -> Answer:
    asked = asks(ctx, {"confirm": form("Please confirm", "ok", "boolean")}, "asked-to-confirm")
    return asked or text("state-ok" if ctx.request_state == "asked-to-confirm" else "The state is another one.")


def multiple_inputs(ctx: Ctx) -> Answer:
    wanted = {
        "user_name": form("What is your name?", "name"),
        "greeting": sample("Generate a greeting", 50),
        "client_roots": ListRootsRequest(),
    }
    return asks(ctx, wanted, "asked-for-three") or text("All three were answered.")


def multi_round(ctx: Ctx) -> Answer:
    if ctx.request_state is None:
        return asks(ctx, {"step1": form("Step 1: What is your name?", "name")}, "one") or text("Answered unasked.")
    if ctx.request_state == "one":
        second: dict[str, Any] = {"step2": form("Step 2: What is your favorite color?", "color")}
        return InputRequiredResult(input_requests=second, request_state="two")
    return text(told(ctx, "step2"))


def tampered_state(ctx: Ctx) -> Answer:
    # The SDK seals the state and refuses one that was changed before it gets here.
    return asks(ctx, {"confirm": form("Please confirm", "ok", "boolean")}, "sealed") or text("Confirmed.")


def capabilities(ctx: Ctx) -> Answer:
    can = ctx.client_capabilities
    wanted: dict[str, Any] = {"greeting": sample("Generate a greeting", 50)} if can and can.sampling else {}
    if can and can.elicitation:
        wanted["user_name"] = form("What is your name?", "name")
    return asks(ctx, wanted) or text("The client can answer nothing more.")


def _replace_schemas(server: MCPServer[Any]) -> None:
    """Schemas that no Python signature gives: one with every keyword, and one with a parameter in a header."""
    tool = Tool.from_function(
        custom_headers, name="json_schema_2020_12_tool", description="Every keyword", structured_output=False
    )
    address = {"$anchor": "address", "type": "object", "properties": {"city": {"type": "string"}}}
    tool.parameters = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": address},
        "properties": {"region": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "allOf": [{"anyOf": [{"required": ["region"]}, {"required": ["address"]}]}],
        "if": {"required": ["address"]},
        "then": {"required": ["region"]},
        "else": {},
        "additionalProperties": False,
    }
    manager = server._tool_manager
    manager._tools[tool.name] = tool
    manager._tools["test_custom_headers"].parameters["properties"]["region"]["x-mcp-header"] = "Region"


def _mount_resources(server: MCPServer[Any]) -> None:
    def words() -> str:
        return "This is the content of the static text resource."

    def picture() -> bytes:
        return base64.b64decode(pixel())

    def watched() -> str:
        return "This resource can be watched."

    def data(id: str) -> str:
        return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'

    server.resource("test://static-text", mime_type="text/plain")(words)
    server.resource("test://static-binary", mime_type="image/png")(picture)
    server.resource("test://watched-resource", mime_type="text/plain")(watched)
    server.resource("test://template/{id}/data", mime_type="application/json")(data)


def _mount_prompts(server: MCPServer[Any]) -> None:
    def simple() -> str:
        return "This is a simple prompt for testing."

    def with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    def with_embedded_resource(resourceUri: str) -> list[Message]:  # the suite's name
        found = document(resourceUri, "text/plain", "Embedded resource content for testing.")
        return [UserMessage(found), UserMessage("Please process the embedded resource above.")]

    def with_image() -> list[Message]:
        picture = ImageContent(data=pixel(), mime_type="image/png")
        return [UserMessage(picture), UserMessage("Please analyze the image above.")]

    def input_required(ctx: Ctx) -> Any:
        return asks(ctx, {"user_context": form("What context should the prompt use?", "context")}) or told(
            ctx, "user_context"
        )

    for prompt, name in (
        (simple, "simple_prompt"),
        (with_arguments, "prompt_with_arguments"),
        (with_embedded_resource, "prompt_with_embedded_resource"),
        (with_image, "prompt_with_image"),
        (input_required, "input_required_result_prompt"),
    ):
        server.prompt(f"test_{name}", description="A fixture of the conformance suite")(prompt)


def with_token(app: ASGIApp, token: str) -> ASGIApp:
    """The guarded application for a client that cannot send the token; Host and Origin are checked as they come."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {token}".encode())]}
        await app(scope, receive, send)

    return serve


async def serve(home: Path) -> None:
    """Serve on a free port of this machine, and print the address once it is taken."""
    settings = Settings(home=home, project="conformance")
    listener, token = listen("127.0.0.1", 0, ()), token_of(settings)
    app = with_token(http_app(Memory(settings), token, build=build), token)
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}\n")
    sys.stdout.flush()
    await uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).serve(sockets=[listener])


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(serve, Path(folder))
