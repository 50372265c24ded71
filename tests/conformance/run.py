"""`make conformance`: the protocol's own suite against the test build of the server, for each protocol version.

The suite comes from npm into a directory that is not part of the repository. It wants Node 22; where that is not
installed, npm has it as a package. An unexpected failure and an unexpected pass both make the command fail.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
REPO = HERE.parent.parent
WORK = REPO / "build/conformance"
EXPECTED = HERE / "expected.toml"
#: The released suite knows 2025-11-25; the one to come knows 2026-07-28 as well, and checks each message's schema.
SUITES = {"released": "0.1.16", "next": "0.2.0-alpha.12"}
RUNS = (("released", "2025-11-25"), ("next", "2025-11-25"), ("next", "2026-07-28"))
NODE_VERSION = "22.23.3"
_WORKED = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


def main() -> int:
    if not shutil.which("npm"):
        sys.exit("npm is not here. Install Node.js, which brings it, and run this again.")
    node = _install()
    expected = tomllib.loads(EXPECTED.read_text("utf-8"))
    shutil.rmtree(WORK / "results", ignore_errors=True)
    wrong = 0
    with _served() as url:
        for suite, revision in RUNS:
            failures = _run(node, suite, revision, url)
            wrong += _report(f"{revision}, suite {SUITES[suite]}", failures, expected[revision])
    return 1 if wrong else 0


def _install() -> str:
    """The suites, and a Node that is new enough: the name of its program."""
    wanted = [f"suite-{name}@npm:@modelcontextprotocol/conformance@{version}" for name, version in SUITES.items()]
    node = shutil.which("node") or "node"
    told = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    if int((re.match(r"v(\d+)", told) or ["", "0"])[1]) < 22:
        kind = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine())
        package = f"node-{sys.platform}-{kind}"
        wanted.append(f"{package}@{NODE_VERSION}")
        node = str(WORK / "node_modules" / package / "bin/node")
    WORK.mkdir(parents=True, exist_ok=True)
    options = ["--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    command = ["npm", "install", "--prefix", str(WORK), *options, *wanted]
    if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
        sys.exit("npm cannot install the suite, as it says above. It needs a registry; nothing was checked.")
    return node


@contextmanager
def _served() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.conformance.server"]
    log = (WORK / "server.log").open("w")
    with log, subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, stderr=log, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def _run(node: str, suite: str, revision: str, url: str) -> dict[str, list[str]]:
    """Run one suite for one version: each scenario, with what went wrong in it."""
    folder = WORK / "results" / f"{suite}-{revision}"
    program = WORK / "node_modules" / f"suite-{suite}" / "dist/index.js"
    which = ["--suite", "all"] if suite == "released" else ["--requirements", revision]
    # Its exit code knows nothing of what is expected; the checks that it writes down are judged here.
    subprocess.run([node, str(program), "server", "--url", url, *which, "-o", str(folder)], stdout=subprocess.DEVNULL)
    return read_results(folder)


def read_results(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*/checks.json")):
        name = _WORKED.fullmatch(path.parent.name)
        checks = json.loads(path.read_text("utf-8"))
        failed = [check for check in checks if check["status"] == "FAILURE"]
        told = [f"{check['id']}: {check.get('errorMessage', '')}" for check in failed]
        found.setdefault(name[1] if name else path.parent.name, []).extend(told)
    return found


def unexpected(failures: Mapping[str, list[str]], expected: Mapping[str, str]) -> list[str]:
    """What is not as it should be, one line each."""
    wrong = [f"{scenario} was not run; see build/conformance/server.log" for scenario in expected.keys() - failures]
    for scenario, told in failures.items():
        if told and scenario not in expected:
            wrong.append(f"{scenario} fails: {'; '.join(told)}")
        elif not told and scenario in expected:
            wrong.append(f"{scenario} passes: take it out of {EXPECTED.name}")
    return wrong


def _report(title: str, failures: Mapping[str, list[str]], expected: Mapping[str, str]) -> int:
    wrong = unexpected(failures, expected)
    known = [scenario for scenario, told in failures.items() if told and scenario in expected]
    passed = sum(not told for told in failures.values())
    lines = [
        f"{title}: {len(failures)} scenarios, {passed} pass, {len(known)} fail as expected, {len(wrong)} are wrong"
    ]
    lines += [f"  expected: {scenario}: {expected[scenario]}" for scenario in known]
    lines += [f"  WRONG: {line}" for line in wrong]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
