"""What a command says of the work that it records: messages of commits, titles and texts of pull requests and issues.

Such texts are written as conclusions, so they are kept beside what the command printed. Commands are read as a shell
would read them, as far as that takes: quotes, heredocs, `$(cat <<EOF …)`, files that the same command writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_TELLING = re.compile(r"\bcommit\b|\bgh\s+(?:pr|issue)\b")
#: More of a command than this is not looked through, and no deeper.
_LONGEST, _DEEPEST = 40_000, 8
_BODY = 1_000
#: What stands for itself in a word, and in double quotes.
_PLAIN = re.compile(r"[^\s'\"\\$`;&|()<>]+|\$")
_IN_QUOTES = re.compile(r"[^\"\\$]+|\$")
_BLANK = re.compile(r"(?:[ \t\r]|\\\n|#[^\n]*)+")
_REDIRECTION = re.compile(r"\d*(?:<<<|&>>?|[<>]&|>>|>\||[<>])[ \t]*")
_HEREDOC = re.compile(r"\d*<<-?[ \t]*(?:(['\"])([^'\"\n]+)\1|\\?([\w.!]+))")
_ESCAPED = re.compile(r"\\([$`\\])")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'?", re.DOTALL)
_ANSI_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}
#: Words before a command that do not change what it is.
_BEFORE = re.compile(r"\w+=.*|sudo|env|time|command|exec|then|do|else|if|!|\{", re.DOTALL)
_GIT_VALUES = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--exec-path", "--namespace"})
_COMMIT_VALUES = frozenset("CcFtuS")
_MESSAGE = re.compile(r"-([a-zA-Z]*?)m(.*)", re.DOTALL)
#: Lines at the end of a message that tools put there.
_TRAILER = re.compile(r"[A-Z][A-Za-z]*(?:-[A-Za-z]+)+: |\W*(?:Co-)?[Gg]enerated (?:with|by) |\W*Made with ")
_NAMED = {"pr": "Pull request", "issue": "Issue"}


@dataclass(slots=True, eq=False)
class _SimpleCommand:
    """One simple command: its words, what it is given to read, and the file that its output goes to."""

    source: _SimpleCommand | None = None
    words: list[str] = field(default_factory=list)
    text: str = ""
    output: str = ""

    def take(self, word: str, target: str) -> None:
        """A word, or what is redirected, by the sign before it."""
        if target == "<<<":
            self.text = word
        elif ">" in target and not target.endswith("&"):
            self.output = word
        elif not target:
            self.words.append(word)

    @property
    def given(self) -> str:
        """What it reads: a heredoc, or what the command before it in a pipe prints."""
        if self.text or not self.source:
            return self.text
        prints = self.source.words[:1] in (["echo"], ["printf"])
        return " ".join(self.source.words[1:]) if prints else self.source.text


def recorded(command: str) -> str:
    """What a command line records, in lines without a blank one between them; empty if it records nothing."""
    if not _TELLING.search(command, 0, _LONGEST):
        return ""  # most commands: they need not be taken apart
    files: dict[str, str] = {}
    blocks: list[str] = []
    for one in _Shell(command[:_LONGEST]).commands():
        while one.words and _BEFORE.fullmatch(one.words[0]):
            del one.words[0]
        if one.output and one.given:
            files[one.output] = one.given
        name = one.words[0].rpartition("/")[2] if one.words else ""
        if name == "git":
            blocks.append(_block("Commit message", _commit(one.words[1:], one.given, files)))
        elif name == "gh" and len(one.words) > 2:
            blocks.append(_on_github(one.words[1:], one.given, files))
    return "\n".join(filter(None, blocks))


def _block(label: str, text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines() if line.strip(" \t@")]  # @ opens and closes in PowerShell
    while lines and _TRAILER.match(lines[-1]):
        del lines[-1]
    body = "\n".join(lines[1:])
    if len(body) > _BODY:
        body = f"{body[: _BODY - 1]}…"
    return "\n".join(filter(None, (f"{label}: {lines[0].strip()}", body))) if lines else ""


def _commit(words: list[str], given: str, files: Mapping[str, str]) -> str:
    """The message that `git commit` is given; empty if it is another command, or none is given."""
    rest = iter(words)
    for word in rest:
        if word in _GIT_VALUES:
            next(rest, "")
        elif not word.startswith("-"):
            if word != "commit":
                return ""
            break
    messages: list[str] = []
    for word in rest:
        cluster = None if word.startswith("--") else _MESSAGE.fullmatch(word)
        if word.startswith("--message=") or word.startswith("--file="):
            option, _, value = word.partition("=")
        elif word in ("--message", "--file", "-F"):
            option, value = word, next(rest, "")
        elif cluster and not _COMMIT_VALUES & set(cluster[1]):
            option, value = "--message", cluster[2] or next(rest, "")
        elif word == "--":
            break
        else:
            continue
        messages.append(value if option == "--message" else given if value == "-" else files.get(value, ""))
    return "\n\n".join(filter(None, messages))


def _on_github(words: list[str], given: str, files: Mapping[str, str]) -> str:
    """What `gh pr` or `gh issue` says: a title with its text, or that an issue is closed."""
    label, verb = _NAMED.get(words[0], ""), words[1]
    if not label or verb not in ("create", "new", "edit", "close"):
        return ""
    options = {"-t": "--title", "-b": "--body", "-F": "--body-file", "-c": "--comment"}
    told: dict[str, str] = {}
    plain: list[str] = []
    rest = iter(words[2:])
    for word in rest:
        name, equals, value = word.partition("=")
        name = options.get(name, name)
        if name in options.values():
            told[name] = value if equals else next(rest, "")
        elif not word.startswith("-"):
            plain.append(word)
    if verb == "close":
        number = plain[0].rpartition("/")[2].lstrip("#") if plain else ""
        return _block(f"{label} closed", f"#{number}\n{told.get('--comment', '')}") if number.isdigit() else ""
    file = told.get("--body-file", "")
    body = told.get("--body") or (given if file == "-" else files.get(file, ""))
    return _block(label, f"{told['--title']}\n{body}") if told.get("--title", "").strip() else ""


class _Shell:
    """Reads a command line once, from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def commands(self, depth: int = 0) -> list[_SimpleCommand]:
        """The simple commands up to the end, or to the parenthesis that closes a substitution."""
        text, found, waiting, target, nested = (
            self._text,
            [_SimpleCommand()],
            list[tuple[_SimpleCommand, str, str]](),
            "",
            0,
        )
        while self._at < len(text):
            if blank := _BLANK.match(text, self._at):
                self._at = blank.end()
            elif heredoc := _HEREDOC.match(text, self._at):
                waiting.append((found[-1], heredoc[2] or heredoc[3], heredoc[1] or ""))
                self._at = heredoc.end()
            elif redirection := _REDIRECTION.match(text, self._at):
                target, self._at = redirection[0].strip(), redirection.end()
            elif (word := self._word(depth)) is not None:
                found[-1].take(word, target)
                target = ""
            else:
                char = text[self._at]
                self._at += 1
                nested += (char == "(") - (char == ")")
                if char == "\n":
                    for command, mark, quote in waiting:
                        command.text = self._heredoc(mark, quote)
                    waiting.clear()
                if nested < 0 and depth:
                    break
                piped = char == "|" and not text.startswith("|", self._at) and text[self._at - 2] != "|"
                found.append(_SimpleCommand(found[-1] if piped else None))
        return found

    def _heredoc(self, mark: str, quote: str) -> str:
        """The lines up to the mark; without one, all that are left."""
        closing = re.compile(rf"^\t*{re.escape(mark)}(?=[ \t\r]*(?:\)|$))", re.MULTILINE)
        end = closing.search(self._text, self._at)
        body = self._text[self._at : end.start() if end else len(self._text)]
        self._at = end.end() if end else len(self._text)
        return (body if quote else _ESCAPED.sub(r"\1", body)).rstrip("\n")

    def _word(self, depth: int) -> str | None:
        """The word that begins here, as the command would get it; None if none does."""
        text, start, parts = self._text, self._at, list[str]()
        while self._at < len(text):
            char = text[self._at]
            if char in "'`":
                end = text.find(char, self._at + 1)
                end = len(text) if end < 0 else end
                parts.append(text[self._at + 1 : end])
                self._at = end + 1
            elif char == '"':
                parts.append(self._quoted(depth))
            elif char == "\\":
                parts.append(text[self._at + 1 : self._at + 2].strip("\n"))
                self._at += 2
            elif text.startswith("$(", self._at):
                parts.append(self._substituted(depth))
            elif ansi := _ANSI.match(text, self._at):
                parts.append(_ANSI_ESCAPED.sub(lambda found: _CONTROLS.get(found[1], found[1]), ansi[1]))
                self._at = ansi.end()
            elif plain := _PLAIN.match(text, self._at):
                parts.append(plain[0])
                self._at = plain.end()
            else:
                break
        return "".join(parts) if self._at > start else None

    def _quoted(self, depth: int) -> str:
        """What stands between double quotes."""
        text, parts = self._text, list[str]()
        self._at += 1
        while self._at < len(text) and text[self._at] != '"':
            if text[self._at] == "\\":
                char = text[self._at + 1 : self._at + 2]
                parts.append("" if char == "\n" else char if char in '"$`\\' else f"\\{char}")
                self._at += 2
            elif text.startswith("$(", self._at):
                parts.append(self._substituted(depth))
            elif plain := _IN_QUOTES.match(text, self._at):
                parts.append(plain[0])
                self._at = plain.end()
        self._at += 1
        return "".join(parts)

    def _substituted(self, depth: int) -> str:
        """What `$(cat <<EOF …)` gives; any other substitution as it stands."""
        start = self._at
        self._at += 2
        if depth >= _DEEPEST:
            return "$("
        inner = [command for command in self.commands(depth + 1) if command.words]
        if len(inner) == 1 and inner[0].words == ["cat"] and inner[0].text:
            return inner[0].text
        return self._text[start : self._at]
