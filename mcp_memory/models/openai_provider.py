"""OpenAI's chat completions, through its own SDK: OpenAI itself, or any server that speaks the same."""

from __future__ import annotations

from typing import Any

from mcp_memory.models.provider import Reply, Request, failure_of, misshapen, sdk, sendable, whole

BASE_URL = "https://api.openai.com/v1"


class OpenAIProvider:
    """Implements the `Provider` interface. Local servers need no key."""

    kind = "openai"

    def __init__(self, api_key: str, base_url: str = "", timeout: float = 60.0) -> None:
        self._api_key, self._base_url, self._timeout = api_key, base_url or BASE_URL, timeout
        # OpenAI's newer models know only the one name of the output cap, most other servers only the other.
        self._cap = "max_completion_tokens" if self._base_url == BASE_URL else "max_tokens"
        self._client: Any = None

    async def ask(self, model: str, request: Request, structured: bool) -> Reply:
        openai = await sdk("openai")
        client = self._client = self._client or openai.AsyncOpenAI(
            api_key=sendable(self._api_key), base_url=self._base_url, timeout=self._timeout, max_retries=0
        )
        try:
            completion = await client.chat.completions.create(
                model=model,
                messages=[
                    {"role": "system", "content": request.system},
                    {"role": "user", "content": request.prompt},
                ],
                **{self._cap: request.max_tokens},
                **(_form(request) if structured else {}),
            )
        except openai.APIError as error:
            raise failure_of(error, model) from None
        return _reply(completion, model)

    async def close(self) -> None:
        if self._client:
            client, self._client = self._client, None
            await client.close()


def _form(request: Request) -> dict[str, Any]:
    form = {"name": request.form, "schema": dict(request.schema), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


def _reply(completion: Any, model: str) -> Reply:
    """The SDK passes on whatever a server sends, so nothing in it is taken for granted."""
    choices = getattr(completion, "choices", None)
    if not isinstance(choices, list):
        raise misshapen(model)
    choice = choices[0] if choices else None
    message = getattr(choice, "message", None)
    calls = getattr(message, "tool_calls", None)
    called = getattr(calls[0], "function", None) if isinstance(calls, list) and calls else None
    text = getattr(called, "arguments", None) or getattr(message, "content", None)
    usage = getattr(completion, "usage", None)
    return Reply(
        text if isinstance(text, str) else "",
        whole(getattr(usage, "prompt_tokens", 0)),
        whole(getattr(usage, "completion_tokens", 0)),
        cut_off=getattr(choice, "finish_reason", None) == "length",
    )
