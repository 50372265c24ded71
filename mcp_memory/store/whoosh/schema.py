"""What a document of the index is made of, and how it is written."""

from __future__ import annotations

from whoosh import columns, fields, formats
from whoosh.analysis import IDTokenizer
from whoosh.codec.whoosh3 import W3Codec

#: How much a word counts by the field it stands in; the same fields and weights as in FTS5.
WEIGHTS = {"head": 3.0, "user": 2.0, "assistant": 1.2, "tool": 0.6, "parts": 0.8}


class Codec(W3Codec):  # type: ignore[misc]  # Whoosh has no types
    """Whoosh's own, without the lengths of single fields, which are of no use here and cost a third of the time."""

    length_stats = False


def _text() -> fields.FieldType:
    """Words with their places. They come analyzed, and lengths are kept as one number for the whole document."""
    field = fields.TEXT(analyzer=IDTokenizer())
    field.format = formats.Positions()
    field.scorable = False
    return field


#: `key` is the document's number as a word, to replace it by; `number` the same as a value, to tell what was found.
SCHEMA = fields.Schema(
    key=fields.ID(unique=True),
    number=fields.COLUMN(columns.NumericColumn("Q")),
    size=fields.COLUMN(columns.NumericColumn("I")),
    at=fields.COLUMN(columns.NumericColumn("q")),
    **{name: _text() for name in WEIGHTS},
)
