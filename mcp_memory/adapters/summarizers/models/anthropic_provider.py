"""Anthropic's Messages API, through its own SDK. The answer's form is a tool that the model must call."""

from __future__ import annotations

import json
from typing import Any

from mcp_memory.adapters.summarizers.models.provider import Reply, Request, failure_of, sdk

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
            api_key=self._api_key or "none",
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
        return _reply(message)

    async def close(self) -> None:
        if self._client:
            client, self._client = self._client, None
            await client.close()


def _tool(request: Request) -> dict[str, Any]:
    tool = {"name": request.form, "description": "Record the summary.", "input_schema": dict(request.schema)}
    return {"tools": [tool], "tool_choice": {"type": "tool", "name": request.form}}


def _reply(message: Any) -> Reply:
    blocks = list(message.content or [])
    called = next((block for block in blocks if block.type == "tool_use"), None)
    text = json.dumps(called.input) if called else "".join(block.text for block in blocks if block.type == "text")
    usage = message.usage
    return Reply(
        text,
        _total(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
        _total(usage, "output_tokens"),
        cut_off=message.stop_reason == "max_tokens",
    )


def _total(usage: Any, *names: str) -> int:
    return sum(int(getattr(usage, name, 0) or 0) for name in names)
