"""`python -m bench [NAME …] [--large] [--json PATH] [--scratch DIR]` runs the benchmarks and prints all figures.

`crash`, `soak` and `forget` are trials rather than measurements: they run only when named, and fail if a promise is
broken.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench.measure import Figure

NAMES = (
    "hook",
    "server",
    "importing",
    "teleport",
    "navigation",
    "context",
    "web",
    "agent",
    "recall",
    "ablation",
    "growth",
    "haystacks",
    "indexes",
    "postgres",
    "forgetting",
    "redaction",
    "team",
)
TRIALS = ("crash", "soak", "forget")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ratios to a baseline, with their aims.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(NAMES)}")
    parser.add_argument(
        "--large",
        action="store_true",
        help="teleport, context, web, forgetting and postgres at 1,000,000 events, indexes at 100,000 (takes long)",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures as JSON")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="keep invented histories there, to be used again")
    parser.add_argument(
        "--short", action="store_true", help="crash, soak and forget: the form that runs with the tests"
    )
    parser.add_argument("--details", type=Path, metavar="PATH", help="recall: write a line of JSON for every question")
    parser.add_argument("--verbose", action="store_true", help="redaction: list the texts in view that come out wrong")
    options = parser.parse_args()
    unknown = set(options.names) - {*NAMES, *TRIALS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join((*NAMES, *TRIALS))}")
    results: dict[str, list[Figure]] = {}
    crashed = []
    with _scratch(options.scratch) as scratch:
        for name in options.names or NAMES:
            print(f"== {name}", flush=True)
            try:
                results[name] = _run(name, scratch, options)
            except Exception:
                traceback.print_exc()
                crashed.append(name)
    if options.json:
        shape = {"machine": machine(), "figures": {name: [asdict(f) for f in rows] for name, rows in results.items()}}
        options.json.write_text(json.dumps(shape, indent=2, ensure_ascii=False), "utf-8")
    _print_table(results)
    if crashed:
        print(f"crashed: {', '.join(crashed)}")
    return 1 if crashed else 0


def _run(name: str, scratch: Path, options: argparse.Namespace) -> list[Figure]:
    more: dict[str, object] = {"short": options.short} if name in TRIALS else {}
    more |= {"recall": {"details": options.details}, "redaction": {"verbose": options.verbose}}.get(name, {})
    figures: list[Figure] = importlib.import_module(f"bench.{name}").run(scratch, large=options.large, **more)
    return figures


@contextmanager
def _scratch(kept: Path | None) -> Iterator[Path]:
    if kept:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="mcp-memory-bench-") as folder:
        yield Path(folder)


def machine() -> dict[str, str | int]:
    return {
        "cores": os.cpu_count() or 0,
        "system": platform.system(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def _print_table(results: dict[str, list[Figure]]) -> None:
    print("\n" + " · ".join(f"{key} {value}" for key, value in machine().items()))
    print(f"{'figure':<66} {'value':>8} {'aim':>8}")
    for name, figures in results.items():
        for figure in figures:
            aim = "" if figure.aim is None else f"≤ {_shown(figure.aim, figure.unit)}"
            verdict = {None: "", True: "met", False: "over"}[figure.met]
            value = _shown(figure.value, figure.unit)
            print(f"{name + ': ' + figure.name:<66} {value:>8} {aim:>8} {verdict:<4} {figure.note}".rstrip())


def _shown(value: float, unit: str) -> str:
    return f"{value:.2f}{unit}" if unit == "×" else f"{value:,.4g}{unit}"


if __name__ == "__main__":
    sys.exit(main())
