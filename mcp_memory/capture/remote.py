"""Which remote a repository has, read from its config without git: `github.com/acme/shop`, however it is spelled.

It tells a repository's clones apart from its forks, on this machine and on others. Credentials, users and ways of
transport are no part of it. A path, and what only this machine calls so, is none: on another machine it means nothing.
"""

from __future__ import annotations

import os

from mcp_memory.capture.settings import lazy

#: As much is read of a config; remotes stand at its beginning. No address is longer.
_MOST_CHARS, _LONGEST = 262_144, 2_048
_SCHEME = lazy(r"(?i)([a-z][a-z0-9+.-]*)://(.*)\Z")
_HOST = lazy(r"(?i)(?:[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])\Z")
#: Ways to a repository. Over the first, a port says no more than how to get there.
_SHELLS = frozenset({"ssh", "git", "git+ssh", "ssh+git"})
_PORTS = {"http": "80", "https": "443", "git+http": "80", "git+https": "443", "ftp": "21", "ftps": "990"}
#: Other names of the same host, where its port for SSH is blocked.
_SAME_HOST = {
    "ssh.github.com": "github.com",
    "www.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "www.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
    "www.bitbucket.org": "bitbucket.org",
}
#: Hosts on which a path means the same in any case.
_ANY_CASE = frozenset({"github.com", "gitlab.com", "bitbucket.org", "codeberg.org"})
#: Each machine calls itself so.
_ITSELF = frozenset({"localhost", "[::1]", "0.0.0.0"})
#: Where users keep what holds in all of their repositories.
_OWN = ("~/.config/git/config", "~/.gitconfig")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}

#: What a config says of remotes: their URLs by name, other spellings of addresses, and the worktree it is for.
Said = tuple["dict[str, str]", "list[tuple[str, str]]", str]


def remote_of(config: str, worktree: str = "") -> str:
    """The remote that a config file names: `origin`, else the first; empty if there is none that holds elsewhere.

    Given a worktree, the config must be for that: anyone can write a file that leads to another repository's.
    """
    urls, spellings, own = read_config(config)
    if worktree:
        told = os.path.join(os.path.dirname(config), own) if own else ""
        if not told or os.path.realpath(told) != os.path.realpath(worktree):
            return ""
    url = urls.get("origin") or next(iter(urls.values()), "")
    if not url or len(url) > _LONGEST:
        return ""
    host = url.partition(":")[0]
    if url != host and "://" not in url and "." not in host and not spellings:  # may be a short form of the user's own
        spellings = [pair for path in _OWN for pair in read_config(os.path.expanduser(path))[1]]
    base, short = max(spellings, key=lambda pair: len(pair[1]) if url.startswith(pair[1]) else -1, default=("", ""))
    return normalized(base + url[len(short) :] if short and url.startswith(short) else url)


def normalized(url: str) -> str:
    """Host and path of an address, in one spelling; empty for one that means nothing on another machine."""
    url = url.strip()
    if not url or len(url) > _LONGEST or not url.isprintable() or " " in url:
        return ""
    found = _SCHEME().match(url)
    if found:
        scheme = found[1].lower()
        authority, _, path = found[2].partition("/")
        if scheme not in _SHELLS and scheme not in _PORTS:
            return ""
        path = path.partition("?")[0].partition("#")[0]
    else:
        authority, colon, path = _scp_like(url)
        if not colon or path.startswith(":"):  # a path, or another program's address
            return ""
        scheme = "ssh"
    host, port = _host_and_port(authority.rpartition("@")[2], scheme)
    path = _path(path)
    if not host or not path:
        return ""
    return f"{host}{port}/{path.lower() if host in _ANY_CASE else path}"


def _scp_like(url: str) -> tuple[str, str, str]:
    """`user@host:path` in its parts. A slash before the colon, or a drive before it, makes it a path."""
    user, at, rest = url.partition("@")
    if not at:
        user, rest = "", url
    elif "/" in user or ":" in user:
        return "", "", ""
    if rest.startswith("["):
        host, closed, path = rest.partition("]")
        return host + closed, path[:1] if path[:1] == ":" else "", path[1:]
    host, colon, path = rest.partition(":")
    if "/" in host or "\\" in url or (len(host) == 1 and not user):
        return "", "", ""
    return host, colon, path


def _host_and_port(place: str, scheme: str) -> tuple[str, str]:
    """The host in lower case, and its port where that may tell one server from another."""
    if place.startswith("["):
        host, closed, port = place.partition("]")
        host, port = host + closed, port.lstrip(":")
    else:
        host, _, port = place.partition(":")
    host = host.lower().rstrip(".")
    host = _SAME_HOST.get(host, host)
    if not _HOST().match(host) or host in _ITSELF or host.startswith("127.") or host.endswith(".localhost"):
        return "", ""
    if port and not (port.isascii() and port.isdigit()):
        return "", ""
    return host, "" if not port or scheme in _SHELLS or _PORTS[scheme] == port else f":{int(port)}"


def _path(path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "@" in path:  # a password with a slash in it would end up here
        return ""
    if parts and parts[-1] == ".git":
        parts.pop()
    if parts and parts[-1].endswith(".git"):
        parts[-1] = parts[-1][: -len(".git")]
    return "/".join(parts)


def read_config(path: str) -> Said:
    """What a config file says of remotes. Files that it includes are not read; never an error."""
    urls: dict[str, str] = {}
    spellings: list[tuple[str, str]] = []
    worktree = kind = name = ""
    for line in _lines(path):
        if line.startswith("["):
            kind, name, line = _section(line)
        key, given, value = line.partition("=")
        key = key.strip().lower()
        if not given or (kind, key) not in (("remote", "url"), ("url", "insteadof"), ("core", "worktree")):
            continue
        value = _value(value)
        if kind == "remote":
            if value and name:
                urls.setdefault(name, value)
        elif kind == "url":
            spellings.append((name, value))
        else:
            worktree = value
    return urls, spellings, worktree


def _lines(path: str) -> list[str]:
    """The lines of a file, as far as it is read, those that go on in the next one joined with it."""
    try:
        if not os.path.isfile(path):  # a pipe would be waited for
            return []
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            text = file.read(_MOST_CHARS)
    except (OSError, ValueError):  # ValueError: no path at all, such as one with a NUL
        return []
    if len(text) == _MOST_CHARS:  # the last line is cut
        text = text[: text.rfind("\n") + 1]
    return [line.strip() for line in text.replace("\\\n", "").split("\n")]


def _section(line: str) -> tuple[str, str, str]:
    """`[kind "name"]` or, as it was once written, `[kind.name]`; and what stands behind it."""
    kind, quote, rest = line[1:].partition('"')
    if quote and "]" not in kind:
        name, at = "", 0
        while at < len(rest) and rest[at] != '"':
            at += rest[at] == "\\"
            name += rest[at : at + 1]
            at += 1
        return kind.strip().lower(), name, rest[at + 1 :].partition("]")[2].strip()
    kind, _, rest = line[1:].partition("]")
    kind, _, name = kind.strip().lower().partition(".")
    return kind, name, rest.strip()


def _value(text: str) -> str:
    """A value without its quotes, escapes and comment."""
    text = text.strip()
    if not any(char in text for char in '"\\#;'):
        return text
    found, at, quoted, kept = "", 0, False, 0
    while at < min(len(text), _LONGEST * 2):
        char = text[at]
        if char == '"':
            quoted = not quoted
        elif char == "\\":
            at += 1
            found += _ESCAPES.get(text[at : at + 1], text[at : at + 1])
        elif char in "#;" and not quoted:
            break
        else:
            found += char
        # White space counts only where it is quoted or something follows it.
        kept = len(found) if quoted or not char.isspace() else kept
        at += 1
    return found[:kept]
