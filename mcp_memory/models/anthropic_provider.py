"""Anthropic's Messages API, through its own SDK. The answer's form is a tool that the model must call."""

from __future__ import annotations

import json
from typing import Any

from mcp_memory.models.provider import Reply, Request, failure_of, misshapen, sdk, sendable, whole

BASE_URL = "https://api.anthropic.com"


class AnthropicProvider:
    """Implements the `Provider` interface."""

    kind = "anthropic"

    def __init__(self, api_key: str, base_url: str = "", timeout: float = 60.0) -> None:
        # The SDK adds the version to the path by itself; many write it into the address, as OpenAI's wants it.
        self._api_key, self._base_url, self._timeout = api_key, base_url.removesuffix("/v1") or BASE_URL, timeout
        self._client: Any = None

    async def ask(self, model: str, request: Request, structured: bool) -> Reply:
        anthropic = await sdk("anthropic")
        client = self._client = self._client or anthropic.AsyncAnthropic(
            api_key=sendable(self._api_key),
            base_url=self._base_url,
            timeout=self._timeout,
            max_retries=0,
            open_telemetry=False,
        )
        try:
            message = await client.messages.create(
                model=model,
                max_tokens=request.max_tokens,
                system=request.system,
                messages=[{"role": "user", "content": request.prompt}],
                **(_tool(request) if structured else {}),
            )
        except anthropic.APIError as error:
            raise failure_of(error, model) from None
        return _reply(message, model)

    async def close(self) -> None:
        if self._client:
            client, self._client = self._client, None
            await client.close()


def _tool(request: Request) -> dict[str, Any]:
    tool = {"name": request.form, "description": "Record the summary.", "input_schema": dict(request.schema)}
    return {"tools": [tool], "tool_choice": {"type": "tool", "name": request.form}}


def _reply(message: Any, model: str) -> Reply:
    """The SDK passes on whatever a server sends, so nothing in it is taken for granted."""
    blocks = getattr(message, "content", None)
    if not isinstance(blocks, list):
        raise misshapen(model)
    called = next((block for block in blocks if getattr(block, "type", None) == "tool_use"), None)
    texts = [getattr(block, "text", None) for block in blocks if getattr(block, "type", None) == "text"]
    said = "".join(text for text in texts if isinstance(text, str))
    text = json.dumps(getattr(called, "input", None)) if called else said
    usage = getattr(message, "usage", None)
    return Reply(
        text,
        _total(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
        _total(usage, "output_tokens"),
        cut_off=getattr(message, "stop_reason", None) == "max_tokens",
    )


def _total(usage: Any, *names: str) -> int:
    return sum(whole(getattr(usage, name, 0)) for name in names)
