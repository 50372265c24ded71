"""How deep a text is summarized: by how long it is. And how much a summary compresses what it was made from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Depth(StrEnum):
    """Ordered from the shortest texts to the longest."""

    NONE = "none"
    BRIEF = "brief"
    STANDARD = "standard"
    DETAILED = "detailed"
    HIERARCHICAL = "hierarchical"


#: A text of fewer tokens than this is summarized to this depth; a longer one hierarchically.
THRESHOLDS = {Depth.NONE: 100, Depth.BRIEF: 500, Depth.STANDARD: 3_000, Depth.DETAILED: 15_000}


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a summary was made of and what came out; `compression_ratio` is output by input, from 0 to 1."""

    depth: Depth
    input_tokens: int
    output_tokens: int
    compression_ratio: float


def depth_of(tokens: int) -> Depth:
    return next((depth for depth, limit in THRESHOLDS.items() if tokens < limit), Depth.HIERARCHICAL)


def measure(input_tokens: int, output_tokens: int, depth: Depth | None = None) -> Metrics:
    """The metrics of a summary; a summary longer than its text counts as no compression."""
    ratio = min(max(output_tokens / input_tokens, 0.0), 1.0) if input_tokens > 0 else 1.0
    return Metrics(depth or depth_of(input_tokens), input_tokens, output_tokens, round(ratio, 4))
