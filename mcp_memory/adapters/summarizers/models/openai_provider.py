"""OpenAI's chat completions, through its own SDK: OpenAI itself, or any server that speaks the same."""

from __future__ import annotations

from typing import Any

from mcp_memory.adapters.summarizers.models.provider import Reply, Request, failure_of, sdk

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
            api_key=self._api_key or "none", base_url=self._base_url, timeout=self._timeout, max_retries=0
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
        return _reply(completion)

    async def close(self) -> None:
        if self._client:
            client, self._client = self._client, None
            await client.close()


def _form(request: Request) -> dict[str, Any]:
    form = {"name": request.form, "schema": dict(request.schema), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


def _reply(completion: Any) -> Reply:
    choice = completion.choices[0] if completion.choices else None
    message = choice.message if choice else None
    calls = getattr(message, "tool_calls", None) or []
    text = calls[0].function.arguments if calls else (message.content if message else "") or ""
    usage = completion.usage
    return Reply(
        text,
        int(getattr(usage, "prompt_tokens", 0) or 0),
        int(getattr(usage, "completion_tokens", 0) or 0),
        cut_off=choice is not None and choice.finish_reason == "length",
    )
