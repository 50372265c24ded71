"""Secrets in HTTP headers: what `Authorization` carries, bearer tokens wherever they stand, cookies.

Each function reads at the place where `named_secrets` has met its word.
"""

from __future__ import annotations

import re

from mcp_memory.capture.marks import OPENING
from mcp_memory.capture.patterns import lazy
from mcp_memory.capture.secret_values import is_basic, is_mixed, is_random, is_reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    Span = tuple[int, int, str]

_AUTHORIZATION = lazy(
    r"""authorization \\{0,7}["'`]?\]? \s{0,4} [:=,] \s{0,4} \\{0,7}["'`]?
        (?: (?P<scheme>bearer|basic|token|digest|negotiate|apikey|bot|key|oauth|hawk|aws4-hmac-sha256) (?:[ ]|%20)+ )?
        (?P<value>[^\s"'`,;<>{}()\\]{4,256})""",
    re.X | re.I,
)
#: The parameters that follow some schemes: each of them may prove who asks.
_PARAMETERS = lazy(
    r"""(?: [\w-]{1,40} = (?: \\{0,7}"[^"\\\r\n]{0,512}\\{0,7}" | [^\s,"'`\\]{1,512} )
            (?: [ \t]{0,4} [,;] [ \t]{0,4} | (?![\w=]) ) ){1,40}""",
    re.X,
)
_WITH_PARAMETERS = frozenset("digest oauth hawk aws4-hmac-sha256".split())
_BEARER = lazy(r"bearer[:=]?[ ]{1,4}([A-Za-z0-9._~+/=-]{16,256})", re.I)
_COOKIE = lazy(
    r"""cookie \\{0,7}["'`]?\]? \s{0,4} [:=] \s{0,4} \\{0,7}["'`]? ([\w.-]{1,80}=[^\r\n"'`\\]{3,256})""", re.X | re.I
)


def authorization(text: str, position: int) -> Span | None:
    """What proves in an `Authorization` header who asks."""
    found = _AUTHORIZATION().match(text, position)
    if not found or is_reference(found["value"]):
        return None
    start, scheme = found.start("value"), (found["scheme"] or "").lower()
    if scheme in _WITH_PARAMETERS:
        parameters = _PARAMETERS().match(text, start)
        if parameters:
            return start, start + len(parameters[0].rstrip(" \t,;")), "authorization"
    value = found["value"].partition(OPENING)[0]
    return (start, start + len(value), "authorization") if _proves(value, scheme) else None


def _proves(value: str, scheme: str) -> bool:
    """Whether the value is a secret rather than a word of talk about such headers."""
    if scheme == "basic":
        return is_basic(value) or is_random(value)
    if scheme:
        return is_mixed(value) and len(value) >= 8
    return is_random(value) and len(value) >= 16


def bearer(text: str, position: int) -> Span | None:
    """A token after the word `Bearer`, in a header or in talk."""
    found = _BEARER().match(text, position)
    return (*found.span(1), "authorization") if found and is_random(found[1]) else None


def cookie(text: str, position: int) -> Span | None:
    """All cookies of a header: any of them may be the one that proves who asks."""
    found = _COOKIE().match(text, position)
    if not found or is_reference(found[1].partition("=")[2]):
        return None
    return (*found.span(1), "cookie")


#: The words where each of these is to be tried.
READERS = (("authorization", authorization), ("bearer", bearer), ("cookie", cookie))
