"""Words that try to become a page: each says so by a title, a dialog or a request if it ever does."""

from __future__ import annotations

_ELSEWHERE = "http://elsewhere.invalid"

HOSTILE = (
    "<script>document.title='owned';alert(1)</script> We decided to use quokka tokens for the login.",
    "</title></textarea></style></script><script>document.title='owned'</script> Please fix the login token.",
    "<img src=x onerror=\"document.title='owned';alert(2)\"> The login token fails.",
    f"![a picture]({_ELSEWHERE}/pixel.png) and <img src='{_ELSEWHERE}/pixel.gif'> beside the login token",
    f"<svg onload=\"alert(3)\"><image href='{_ELSEWHERE}/image.svg'/><script>alert(4)</script></svg> login token",
    "[click me](javascript:alert(5)) and <a href='javascript:alert(6)'>me</a> for the login token",
    "[data](data:text/html,<script>alert(7)</script>) [x](vbscript:alert(8)) login token",
    f"<style>body{{background:url({_ELSEWHERE}/s.png)}}</style><link rel=stylesheet href={_ELSEWHERE}/a.css> token",
    f"<iframe src='{_ELSEWHERE}/f'></iframe><object data='{_ELSEWHERE}/o'></object><base href='{_ELSEWHERE}/'> token",
    f"<meta http-equiv=refresh content='0;url={_ELSEWHERE}/meta'> login token",
    f"<form action='{_ELSEWHERE}/form' id=x><button autofocus onfocus=alert(9)>token</button></form>",
    "\"><details open ontoggle=alert(10)> ' onmouseover=alert(11) x=' {{ 7 * 7 }} {% raw %} ${alert(12)} login token",
    f'```html"onclick=alert(13)\n<script src="{_ELSEWHERE}/code.js"></script>\n```\nThe login token again.',
    f"<video src='{_ELSEWHERE}/v' autoplay onerror=alert(14)></video><audio src='{_ELSEWHERE}/a'></audio> token",
    "Turned \u202earound\u202c and \u2066isolated\u2069, with \u200bhidden\u200b letters \u0000 and \u0007 in a token",
    f"{'Donaudampfschifffahrtsgesellschaft' * 60} login token {'/path' * 200}",
    f"| a | b |\n|---|---|\n| <script>alert(15)</script> | ![x]({_ELSEWHERE}/table.png) |\n\nlogin token",
    "We decided: never trust <b onmouseover=alert(16)>bold</b> words. <!-- token --> <![CDATA[<script>alert(17)]]>",
)
