"""Words of the memory as HTML: Markdown and code for reading, verbatim where every character counts.

All of it was said by someone, or printed by a program: nothing in it may become a tag, load an image or run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import DiffLexer, get_lexer_by_name
from pygments.util import ClassNotFound

from mcp_memory.domain.text import HIDDEN

#: More of a message is not laid out: Markdown of a megabyte takes seconds.
LONGEST = 40_000
_ELSEWHERE = re.compile(r"(?:https?://|mailto:)", re.I)
_DIFF = re.compile(r"^[+-](?![+-])", re.M)
_FORMATTER = HtmlFormatter(nowrap=True)


def visible(text: str) -> str:
    """Without characters that no screen shows, or that turn a line around."""
    return HIDDEN.sub("", text)


def _code(code: str, language: str, _: str) -> str:
    try:
        return str(highlight(code, get_lexer_by_name(language), _FORMATTER)) if language else str(escape(code))
    except ClassNotFound:
        return str(escape(code))


_MARKDOWN = MarkdownIt("commonmark", {"html": False, "highlight": _code, "breaks": True}).enable("table")
_MARKDOWN.disable("image")


def _leading_away(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    """A link in what was said: who follows it takes nothing of this page along. To pages of ours it leads nowhere."""
    if _ELSEWHERE.match(str(tokens[at].attrGet("href"))):
        tokens[at].attrSet("rel", "noreferrer noopener nofollow")
    else:
        tokens[at].attrs.pop("href", None)
    return renderer.renderToken(tokens, at, options, env)


def _aligned(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    """A cell of a table, to which side its column tends: by a class, as a page of ours takes no other styles."""
    if style := tokens[at].attrs.pop("style", None):
        tokens[at].attrSet("class", str(style).rpartition(":")[2])
    return renderer.renderToken(tokens, at, options, env)


_MARKDOWN.add_render_rule("link_open", _leading_away)
for _cell in ("th_open", "td_open"):
    _MARKDOWN.add_render_rule(_cell, _aligned)


@lru_cache(maxsize=256)
def prose(text: str) -> Markup:
    """A message as it was meant to be read."""
    shown = visible(text)
    cut = shown[:LONGEST]
    return Markup(_MARKDOWN.render(cut)) + (Markup("<p>…</p>") if len(shown) > LONGEST else "")


#: Within a line that is a link itself: code and emphasis.
_INLINE = MarkdownIt("zero", {"html": False}).enable(["backticks", "emphasis"])


def inline(text: str) -> Markup:
    """A sentence of a summary."""
    return Markup(_INLINE.renderInline(visible(text)))


def output(text: str) -> Markup:
    """What a tool printed; changes of a file in their colours."""
    shown = visible(text)[:LONGEST]
    if len(_DIFF.findall(shown[:4_000])) > 1:
        return Markup(highlight(shown, DiffLexer(), _FORMATTER))
    return escape(shown)


def excerpt(text: str, start: int, end: int) -> Markup:
    """A whole text, letter by letter, with the cited part marked."""
    before, cited, after = (visible(part) for part in (text[:start], text[start:end], text[end:]))
    return Markup('{}<mark id="excerpt">{}</mark>{}').format(before, cited, after)


def marked(text: str, words: Iterable[str]) -> Markup:
    """A passage with the words that were found in it."""
    shown, found = visible(text), [re.escape(word) for word in words if word.strip()]
    if not found:
        return escape(shown)
    parts = re.split(f"({'|'.join(sorted(found, key=len, reverse=True))})", shown, flags=re.I)
    marks = [Markup("<mark>{}</mark>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)]
    return Markup("").join(marks)


@lru_cache(maxsize=1)
def code_styles() -> str:
    """Pygments' colours for both schemes."""
    light = HtmlFormatter(style="xcode").get_style_defs("pre")
    dark = HtmlFormatter(style="github-dark").get_style_defs("pre")
    return f"{_inks(light)}\n@media (prefers-color-scheme: dark) {{\n{_inks(dark)}\n}}\n"


def _inks(styles: str) -> str:
    """The colours of words alone: background and borders are the page's own."""
    return "\n".join(line for line in styles.splitlines() if re.match(r"pre \.\w+ \{", line) and "border" not in line)
