"""From plain settings to a caller that is ready to ask; nothing is imported or connected before it asks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from mcp_memory.models.anthropic_provider import AnthropicProvider
from mcp_memory.models.calling import Caller, Limits
from mcp_memory.models.openai_provider import OpenAIProvider
from mcp_memory.models.port import Ledger
from mcp_memory.models.provider import Provider
from mcp_memory.ports.work import Clock


def build(
    kind: str,
    models: Sequence[str],
    *,
    api_key: str,
    base_url: str,
    max_output_tokens: int,
    timeout_seconds: float,
    concurrency: int,
    ledger: Ledger,
    count: Callable[[str], int],
    clock: Clock,
) -> Caller:
    make = AnthropicProvider if kind == "anthropic" else OpenAIProvider
    provider: Provider = make(api_key, base_url, timeout_seconds)
    limits = Limits(
        models=tuple(models),
        max_output_tokens=max_output_tokens,
        timeout_seconds=timeout_seconds,
        concurrency=concurrency,
        fingerprint=fingerprint(kind, models, base_url, api_key),
        needs_key=not api_key and not base_url,
    )
    return Caller(provider, ledger, limits, count, clock)


def fingerprint(kind: str, models: Sequence[str], base_url: str, api_key: str) -> str:
    """Changes with the settings that a provider may refuse. Of the key it holds too little to tell one from another."""
    key = hashlib.blake2b(api_key.encode(), digest_size=2, person=b"key").hexdigest()
    return hashlib.blake2b("\x1f".join([kind, *models, base_url, key]).encode(), digest_size=8).hexdigest()
