"""Reading forms, with a limit on what is read: anyone can send one."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

#: Of the form that logs a browser in, and of one that may hold a note of 200,000 letters of any script.
LOGIN_BYTES = 4_096
FORM_BYTES = 2_000_000
_FIELDS = 20
_KIND = "application/x-www-form-urlencoded"


async def read_form(request: Request, limit: int) -> dict[str, str]:
    """Read a form of at most `limit` bytes. What is longer is refused without being kept or parsed."""
    kind = request.headers.get("content-type", _KIND).partition(";")[0].strip().lower()
    if kind != _KIND:
        raise HTTPException(415, f"Only forms of the type {_KIND} are read here.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 12 or int(length) > limit):
        raise HTTPException(413, "This form is too long.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise HTTPException(413, "This form is too long.")
    try:
        fields = parse_qsl(body.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=_FIELDS)
    except ValueError:
        raise HTTPException(400, "This form has too many fields.") from None
    return dict(fields)
