"""What the index in PostgreSQL holds of a document: its words, and how much each of them counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mcp_memory.domain.terms import WEIGHTS, Columns, index_words

#: How much the length of a text takes from its words, and the length of a common one.
_B, _COMMON = 0.75, 120.0


def index_rows(documents: Sequence[tuple[int, Columns]]) -> list[tuple[int, list[str], float, bool, bool]]:
    """Rows of the index: number, words, weight, whether users or agents said it, and whether a tool did."""
    rows = []
    for number, columns in documents:
        words = [word for text in columns for word in index_words(text)]
        field = next((name for name, text in columns._asdict().items() if text), "tool")
        weight = WEIGHTS[field] / (1 - _B + _B * max(len(words), 1) / _COMMON)
        told = sorted({word for word in words if word})
        rows.append((number, told, round(min(weight, math.inf), 4), field in ("user", "assistant"), field == "tool"))
    return rows
