"""A real browser before a real `mcp-memory web`: on the sample history, and on one that tries to break out of its page.

Playwright's loop stays in its thread for as long as it runs. So browser and server live as long as a module's tests,
and what is run in a loop of its own is done before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.support import REPO, let_have_captured, said
from tests.surfaces.shell import SCRIPT
from tests.surfaces.web.browser.payloads import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, StorageState

    Open = Callable[..., Page]

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
#: Whatever a test waits for comes within this time, or the test fails.
PATIENCE_MS = 20_000
NOW = "2026-10-31T12:00:00Z"
#: The session that is longer than a page, and the words in the midst of it.
LONG, MIDST = "tidepool-ops-01", "Gauge 40 drifts"
#: What stands at the end of a message that is longer than a window.
LAST_WORDS = "From now on, never restart a buoy before its log was copied."


@dataclass
class Site:
    """A memory, and its pages as a browser of its owner sees them."""

    home: Path
    url: str
    link: str
    state: StorageState | None = None
    #: The address of one page of each kind, by what it shows.
    views: dict[str, str] = field(default_factory=dict)

    def capture(self, session: str, **payload: object) -> None:
        """Tell the memory something as a client does: by the hook."""
        told = {"session_id": session, "cwd": str(self.home.parent), "hook_event_name": "UserPromptSubmit", **payload}
        hook = [sys.executable, str(REPO / "hooks" / "capture.py"), "--client", "claude-code"]
        environment = _environment(self.home)
        subprocess.run(hook, input=json.dumps(told), env=environment, text=True, check=True, timeout=60)


def _environment(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home.parent),
        "MCP_MEMORY_HOME": str(home),
        "MCP_MEMORY_CALENDAR_TIMEZONE": "UTC",
        "MCP_MEMORY_NOW": NOW,
    }


def _import(home: Path, lines: list[dict[str, Any]]) -> None:
    history = home.parent / "history.jsonl"
    history.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    _run(home, "import", str(history), "--client", "jsonl")


def _run(home: Path, *words: str, now: str = NOW) -> None:
    environment = _environment(home) | {"MCP_MEMORY_NOW": now}
    subprocess.run([SCRIPT, *words], env=environment, check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where the browser is, the one without a screen first. Without any, no time is spent on what it would show."""
    found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if found is None:
        pytest.skip("chromium is not installed")
    return found


@pytest.fixture(scope="session")
def used_home(chromium: str, sample_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample history and what longer use leaves: a session of many messages, second versions, a note, a recall."""
    home = shutil.copytree(sample_home, tmp_path_factory.mktemp("used") / "home")
    gauges = [
        said(
            f"Gauge {number} drifts by {number % 7 + 2} mm a week; {'have a look' if role == 'user' else 'set right'}.",
            f"2026-09-{9 + number // 30:02}T08:{number * 2 % 60:02}:{30 * (role == 'assistant'):02}Z",
            role=role,
            session=LONG,
            project="tidepool-api",
        )
        for number in range(60)
        for role in ("user", "assistant")
    ]
    # A message that is longer than a window, with words at its end that a bullet cites.
    checks = "\n".join(f"- buoy {number}: compare its clock with the table of harbour {number}" for number in range(90))
    long_message = f"{checks}\n\n{LAST_WORDS}"
    asked = said(long_message, "2026-09-16T09:00:00Z", session="tidepool-ops-02", project="tidepool-api")
    later = said("Ship the export on Monday, and tell the harbours.", "2026-10-30T15:00:00Z", project="tidepool-api")
    _import(home, [*gauges, asked, later])
    _run(home, "remember", "Deploy on Tuesdays only.", "--project", "tidepool-api", "--pin", now="2026-10-29T09:00:00Z")
    _run(home, "process", "--until-idle")
    handed = (1_793_000_000_000, "brief", "claude-code", LONG, "", "tidepool-api", "startup", f'["session:{LONG}"]', 80)
    columns = "at_ms, kind, client, session, root, label, asked, ids, tokens"
    with closing(sqlite3.connect(home / "inbox.db", isolation_level=None)) as inbox:
        inbox.execute(f"INSERT INTO handed ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", handed)
    let_have_captured(home)
    return home


@pytest.fixture(scope="session")
def hostile_home(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that may hold words of others holds some that would rather be a page of their own."""
    home = tmp_path_factory.mktemp("hostile") / "home"
    spoken = [
        said(text, f"2026-10-{20 + number % 4}T09:{number:02}:00Z", role=role, session=f"evil-{number % 3}")
        for number, text in enumerate(HOSTILE)
        for role in ("user", "assistant")
    ]
    done = [
        said(f"Edit: {text}\n{text}", f"2026-10-24T10:{number:02}:00Z", role="tool", session="evil-tools")
        | {"event_type": "tool_result", "metadata": {"files": [text[:80]]}}
        for number, text in enumerate(HOSTILE)
    ]
    _import(home, [*spoken, *done])
    _run(home, "process", "--until-idle")
    return home


@pytest.fixture(scope="module")
def browser(chromium: str, used_home: Path) -> Iterator[Browser]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield started
        started.close()


@contextmanager
def started(home: Path, target: Path) -> Iterator[Site]:
    """The pages of a copy of a memory with an agent, by a server of its own, whose link no one has used."""
    copy = shutil.copytree(home, target / "home")
    _run(copy, "install", "claude-code")
    command = [str(SCRIPT), "web", "--port", "0", "--no-open", "--json"]
    with subprocess.Popen(
        command, env=_environment(copy), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            link = json.loads(server.stdout.readline())["link"]
            parts = urlsplit(link)
            yield Site(copy, f"{parts.scheme}://{parts.netloc}", link)
        finally:
            server.terminate()


@contextmanager
def serving(home: Path, target: Path, browser: Browser) -> Iterator[Site]:
    """As above, with a browser that is logged in."""
    with started(home, target) as site:
        context = browser.new_context(base_url=site.url)
        context.request.get(site.link)
        site.state = context.storage_state()
        site.views = _views(context)
        context.close()
        yield site


#: What a page of each kind is called here; each test of all pages runs for each of them.
VIEWS = (
    "overview|contents|day|day node|segment|year|versions|evidence|search|hits|sessions|session|files|file|notes|note"
    "|recalled|live|health|forget|preview|trouble"
).split("|")
#: A page that is not there is one as well; the browser reports its status as an error.
MISSING = "trouble"


def _views(context: BrowserContext) -> dict[str, str]:
    """The address of a page of each kind, found as one finds it: by following links."""

    def link(address: str, beginning: str) -> str:
        html = context.request.get(address).text()
        found = re.search(rf'href="({beginning}[^"]+)"', html)
        return unescape(found[1]) if found else ""

    day = link("/", "/node/toc:day:")
    segment, project = link(day, "/node/toc:segment:"), day.partition("@")[2]
    return {
        "overview": "/",
        "contents": "/toc",
        "day": link("/", "/day/"),
        "day node": day,
        "segment": segment,
        "year": link("/toc", "/node/toc:year:"),
        "versions": f"/node/toc:year:2026@{project}/history",
        "evidence": link(segment, "/grip/"),
        "search": "/search",
        "hits": "/search?q=login+token&when=this+year",
        "sessions": "/sessions",
        "session": link("/sessions", "/session/"),
        "files": "/files",
        "file": link("/files", r"/file\?"),
        "notes": "/notes",
        "note": link("/notes", "/note/"),
        "recalled": "/recalled",
        "live": "/live",
        "health": "/health",
        "forget": "/forget",
        "preview": "/forget?match=token",
        MISSING: f"/node/toc:day:2026-11-01@{project}",
    }


@pytest.fixture(scope="module")
def site(browser: Browser, used_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(used_home, tmp_path_factory.mktemp("site"), browser) as served:
        yield served


@pytest.fixture(scope="module")
def hostile(browser: Browser, hostile_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(hostile_home, tmp_path_factory.mktemp("site"), browser) as served:
        yield served


class Window:
    """A window of a browser, and what its page does that it should not: errors, dialogs, requests to anywhere else."""

    def __init__(self, site: Site, page: Page) -> None:
        self.page = page
        self.troubles: list[str] = []
        #: Whether the page has a status that the browser reports as an error.
        self.fails = False
        self._site = site
        page.on("pageerror", lambda error: self._note(str(error)))
        page.on("dialog", self._asked)
        page.on("console", self._told)
        page.on("request", lambda request: self._sent(request.url))

    def _note(self, trouble: str) -> None:
        self.troubles.append(f"{self.page.url}: {trouble}")

    def _asked(self, dialog: Dialog) -> None:
        self._note(f"dialog {dialog.message}")
        dialog.dismiss()

    def _told(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not (self.fails and message.text.startswith("Failed to load resource")):
            self._note(message.text)

    def _sent(self, url: str) -> None:
        if not url.startswith(f"{self._site.url}/"):
            self._note(f"asked for {url}")


@pytest.fixture(scope="module")
def windows() -> dict[str, list[Window]]:
    """Those that are free, by what they are like: opening one takes longer than most of what is done in it."""
    return {}


@pytest.fixture
def open_page(browser: Browser, windows: dict[str, list[Window]]) -> Iterator[Open]:
    """Opens pages of a site. A test fails if one of them reports an error or asks elsewhere.

    Where a page `fails`, its status is meant: the browser reports it as an error, and nothing else may be one.
    """
    used: list[tuple[str, Window]] = []

    def opened(
        site: Site,
        address: str = "",
        *,
        logged_in: bool = True,
        fails: bool = False,
        width: int = 1280,
        height: int = 800,
        **options: Any,
    ) -> Page:
        name = f"{site.url} {sorted(options.items())}" if logged_in else ""
        if windows.get(name):
            window = windows[name].pop()
        else:
            state = site.state if logged_in else None
            context = browser.new_context(base_url=site.url, storage_state=state, reduced_motion="reduce", **options)
            context.set_default_timeout(PATIENCE_MS)
            window = Window(site, context.new_page())
        used.append((name, window))
        window.troubles, window.fails = [], fails
        window.page.set_viewport_size({"width": width, "height": height})
        # An earlier test may have changed it.
        window.page.emulate_media(color_scheme=options.get("color_scheme", "null"))
        if address:
            window.page.goto(address)
        return window.page

    yield opened
    for name, window in used:
        if name:
            windows.setdefault(name, []).append(window)
        else:
            window.page.context.close()
    assert not [trouble for _, window in used for trouble in window.troubles]


def overhang(page: Page) -> int:
    """By how many pixels a page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
