"""Abbreviations of the trade, so that a question with the short form finds what was said with the long one, and back.

Left out is what would find more than is meant: `app` (an application for a job), `ts` and `py` (the ends of file
names), `cd` (a command). The index knows words by their stems, which for some long forms are those of another word
(authorization and author): these are never looked for by their short form, only the other way round.
"""

from __future__ import annotations

_BOTH_WAYS = """
a11y = accessibility
admin = administrator
arg = argument
async = asynchronous
auth = authn = authentication
ci = continuous integration
config = configuration
db = database
dep = dependency
dev = development
dir = directory
doc = documentation
env = environment
fn = func = function
gh = github
i18n = internationalization
impl = implementation
k8s = kubernetes
l10n = localization
lib = library
llm = language model
msg = message
o11y = observability
param = parameter
perf = performance
pg = postgres = postgresql
pkg = package
pr = pull request
regex = regexp = regular expression
repo = repository
sync = synchronization
ui = user interface
var = variable
vm = virtual machine
"""
_ONE_WAY = """
authorization = auth = authz
production = prod
specification = spec
"""


def _groups(table: str) -> list[tuple[tuple[str, ...], ...]]:
    return [tuple(tuple(form.split()) for form in line.split(" = ")) for line in table.split("\n") if line]


_PHRASES = {form[0]: group for group in _groups(_BOTH_WAYS) for form in group if len(form) == 1}
_PHRASES |= {group[0][0]: group for group in _groups(_ONE_WAY)}


def _singular(word: str) -> str:
    if word in _PHRASES or not word.endswith("s"):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") else word[:-1]


_SHORT = {tuple(map(_singular, form)): group[0] for group in _groups(_BOTH_WAYS) for form in group if len(form) > 1}
_LONGEST = max(map(len, _SHORT))


def written(word: str) -> tuple[tuple[str, ...], ...]:
    """The other ways to write a lower-case word, each as a row of words; none if it is neither short nor shortened."""
    plain = _singular(word)
    return tuple(form for form in _PHRASES.get(plain, ()) if form != (plain,))


def shortened(words: list[str]) -> dict[int, tuple[str, ...]]:
    """The words of a row that are part of a long form, by place, each with the short form that may stand for it."""
    plain = [_singular(word) for word in words]
    found: dict[int, tuple[str, ...]] = {}
    for size in range(2, _LONGEST + 1):
        for start in range(len(plain) - size + 1):
            short = _SHORT.get(tuple(plain[start : start + size]))
            if short:
                found |= dict.fromkeys(range(start, start + size), short)
    return found
