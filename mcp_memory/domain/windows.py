"""How much a model can hold, told by its name: names are matched by their longest known beginning or part."""

from __future__ import annotations

from collections.abc import Mapping

#: What is assumed of a model that no one knows, and of a session that does not name one.
DEFAULT = 200_000

#: Tokens of context by a part of the model's name, small local models included. Settings add to it and win over it.
KNOWN: Mapping[str, int] = {
    "claude": 200_000,
    "gpt-5": 400_000,
    "gpt-4.1": 1_047_576,
    "gpt-4o": 128_000,
    "gpt-4-turbo": 128_000,
    "gpt-4-32k": 32_768,
    "gpt-4": 8_192,
    "gpt-3.5": 16_385,
    "gpt-oss": 131_072,
    "gpt-2": 1_024,
    "codex": 272_000,
    "o1": 200_000,
    "o3": 200_000,
    "o4": 200_000,
    "gemini": 1_048_576,
    "gemini-1.5-pro": 2_097_152,
    "llama-2": 4_096,
    "llama2": 4_096,
    "llama-3": 8_192,
    "llama3": 8_192,
    "llama-3.1": 131_072,
    "llama3.1": 131_072,
    "llama-3.2": 131_072,
    "llama3.2": 131_072,
    "llama-3.3": 131_072,
    "llama3.3": 131_072,
    "llama-4": 1_048_576,
    "codellama": 16_384,
    "tinyllama": 2_048,
    "mistral": 32_768,
    "mixtral": 32_768,
    "devstral": 131_072,
    "codestral": 32_768,
    "phi-2": 2_048,
    "phi-3": 4_096,
    "phi3": 4_096,
    "phi-4": 16_384,
    "phi4": 16_384,
    "gemma": 8_192,
    "gemma3": 131_072,
    "gemma-3": 131_072,
    "qwen": 32_768,
    "qwen3": 131_072,
    "qwen3-coder": 262_144,
    "deepseek": 131_072,
    "glm-4": 131_072,
    "kimi": 262_144,
    "grok": 256_000,
}
#: How clients mark the variant of a model with a window of a million.
_MILLION = "[1m]"
#: Windows that providers sell beyond the usual one.
_LARGER = (400_000, 1_048_576, 2_097_152, 10_485_760)


def context_length(model: str, table: Mapping[str, int] | None = None) -> int:
    """The tokens of a model's context; the longest name that occurs in the model's own decides."""
    name = model.lower()
    for source in (table or {}, KNOWN):
        # `o1` would be found in many a name, so a short one must stand at the beginning.
        fitting = [key for key in source if name.startswith(key.lower()) or (len(key) > 2 and key.lower() in name)]
        if fitting:
            return 1_000_000 if source is KNOWN and _MILLION in name else source[max(fitting, key=len)]
    return DEFAULT


def at_least(length: int, used: int) -> int:
    """A window that holds what a client says it has sent: what it could send must have fitted."""
    return length if used <= length else next((size for size in _LARGER if size >= used), used)


def parse_table(text: str) -> dict[str, int]:
    """`name=tokens, name=tokens` as a table; raises ValueError for anything else."""
    table: dict[str, int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, tokens = part.rpartition("=")
        if not name.strip() or not tokens.strip().isdecimal() or not 256 <= int(tokens) <= 100_000_000:
            raise ValueError(part)
        table[name.strip()] = int(tokens)
    return table
