"""What this machine keeps of the team between two questions: `team-known.json`, and when some of it must go.

Each answer of the server carries a mark, which changes when something is erased there that one could read. What others
said is kept with the mark that came with it, and dropped as soon as an answer carries another one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from mcp_memory.capture.team_news import LINE_CHARS, news_lines, read_known
from mcp_memory.config import Settings
from mcp_memory.domain.people import ProjectName
from mcp_memory.domain.text import safe
from mcp_memory.domain.toc import TEAM
from mcp_memory.errors import MemoryFault
from mcp_memory.team.account import write_private

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TeamKnown:
    """The team's projects by slug and remote, and what is new in them."""

    server: str = ""
    asked_ms: int = 0
    projects: list[dict[str, str]] = field(default_factory=list)
    news_ms: int = 0
    #: By the project's name here: when, and the line.
    news: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    #: The server's mark of what was erased, as of when it told the news.
    mark: str = ""

    @classmethod
    def load(cls, settings: Settings) -> TeamKnown:
        with suppress(ValueError, TypeError, AttributeError, KeyError):
            return cls._of(read_known(str(settings.team_known)))
        return cls()

    @classmethod
    def _of(cls, told: Mapping[str, Any]) -> TeamKnown:
        projects = [{"slug": str(one["slug"]), "remote": str(one["remote"])} for one in told["projects"]]
        known = cls(str(told["server"]), int(told["asked_ms"]), projects)
        if mark := str(told.get("mark", "")):  # without one, as earlier versions wrote it, the news may be outdated
            known.mark, known.news_ms = mark, int(told["news_ms"])
            rows = dict(told["news"]).items()
            known.news = {str(slug): [(int(at), str(line)) for at, line in lines] for slug, lines in rows}
        return known

    def save(self, settings: Settings) -> None:
        write_private(settings.team_known, asdict(self))

    def drop_news(self) -> None:
        self.news_ms, self.news = 0, {}

    def slug_of(self, project: ProjectName) -> str | None:
        """Return the team's name of a project: by the remote, else by the name where one of the two has no remote."""
        if project.remote:
            found = next((one["slug"] for one in self.projects if one["remote"] == project.remote), None)
            if found:
                return found
        name, theirs = project.name.removeprefix(TEAM), {one["slug"]: one["remote"] for one in self.projects}
        return name if name in theirs and not (project.remote and theirs[name]) else None


def news_of(settings: Settings, slug: str, since_ms: int, now_ms: int) -> list[str]:
    """Return what others did in a project after a time, as it was last fetched: lines for a brief, which are data."""
    lines = news_lines(read_known(str(settings.team_known)), slug, since_ms, now_ms)
    return [safe(line, LINE_CHARS) for line in lines]


def drop_outdated_news(settings: Settings, server: str, mark: str) -> None:
    """Drop what is kept of others' words if the server has erased something since it told them.

    Without a mark, as an earlier server answers, nothing is kept at all.
    """
    known = TeamKnown.load(settings)
    if known.server != server or (mark and known.mark == mark):
        return
    had_news = bool(known.news)
    known.drop_news()
    known.mark = mark
    try:
        known.save(settings)
    except MemoryFault as error:
        logger.warning("%s", error)
        with suppress(OSError):
            settings.team_known.unlink(missing_ok=True)
    if had_news:
        logger.info("The team's server has erased something: news that were kept here are dropped.")
