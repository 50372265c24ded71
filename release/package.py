"""`make release`: sdist and wheel, a bill of materials beside them, and a look at whether the wheel is complete.

The bill of materials (CycloneDX) is made from the lock file. It names what an installation needs, and what its extras
bring, with versions, hashes and who needs whom; what is only needed to work on the project is not part of it.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import Parser
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mcp_memory import __version__
from release.manifests import DISTRIBUTION, REPO, outdated

_PIN = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^\s;]+)[^\n]*\n(?P<rest>(?:[ ]+[^\n]*\n)*)", re.MULTILINE)
_NEEDED = ("hooks/capture.py", "store/sqlite/schema/0001_memory.sql", "sample/history.jsonl", "py.typed")


@dataclass(frozen=True)
class Pin:
    """A package of the lock file. `needed_by` are those that ask for it."""

    name: str
    version: str
    hashes: tuple[str, ...]
    needed_by: frozenset[str]

    @property
    def ref(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def pins(lock: str) -> dict[str, Pin]:
    """Name → what the lock file says of it."""
    found = {}
    for match in _PIN.finditer(lock):
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", match["rest"])
        comments = re.findall(r"#(?: via)?[ ]+([a-z0-9-]+)", match["rest"])
        needed_by = frozenset(comments) - {"via"}
        found[match["name"]] = Pin(match["name"], match["version"], tuple(hashes), needed_by)
    return found


def bill(lock: str, project: dict[str, Any], made: datetime) -> dict[str, Any]:
    """The bill of materials of what this project installs."""
    locked = pins(lock)
    required = _reached(locked, project["dependencies"])
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    optional = _reached(locked, extras) - required
    ref = f"pkg:pypi/{DISTRIBUTION}@{__version__}"
    listed = sorted(required | optional)
    declared = {_name(line) for line in (*project["dependencies"], *extras)}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, ref + hashlib.sha256(lock.encode()).hexdigest())}",
        "version": 1,
        "metadata": {
            "timestamp": made.isoformat(timespec="seconds"),
            "component": {
                "type": "application",
                "bom-ref": ref,
                "name": DISTRIBUTION,
                "version": __version__,
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": ref,
            },
        },
        "components": [_component(locked[name], "required" if name in required else "optional") for name in listed],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(locked[name].ref for name in declared)},
            *({"ref": locked[name].ref, "dependsOn": _needs(locked, name, listed)} for name in listed),
        ],
    }


def _component(pin: Pin, scope: str) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": value} for value in pin.hashes]
    return {
        "type": "library",
        "bom-ref": pin.ref,
        "name": pin.name,
        "version": pin.version,
        "scope": scope,
        "purl": pin.ref,
        # One hash for each file in which this version is published, whatever the system.
        "externalReferences": [{"type": "distribution", "url": pin.ref, "hashes": hashes}],
    }


def _needs(locked: dict[str, Pin], name: str, listed: Iterable[str]) -> list[str]:
    return sorted(locked[other].ref for other in listed if name in locked[other].needed_by)


def _reached(locked: dict[str, Pin], lines: Iterable[str]) -> set[str]:
    """The packages that these requirements bring, with all that those need."""
    reached, waiting = set[str](), {_name(line) for line in lines}
    while waiting:
        reached |= waiting
        waiting = {name for name, pin in locked.items() if pin.needed_by & waiting} - reached
    return reached


def _name(requirement: str) -> str:
    return str(canonicalize_name(Requirement(requirement).name))


def faults(wheel: Path, project: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a wheel: a file that is missing, too much or not as recorded, or other words about itself."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = next(name.partition("/")[0] for name in names if ".dist-info/" in name)
        yield from (f"{name} is missing" for name in _NEEDED if f"mcp_memory/{name}" not in names)
        yield from (
            f"{name} does not belong in it" for name in names if name.partition("/")[0] not in ("mcp_memory", info)
        )
        for name, digest, _ in csv.reader(io.StringIO(archive.read(f"{info}/RECORD").decode())):
            found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
            if digest and digest != f"sha256={found}":
                yield f"{name} is not as recorded"
        about = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        scripts = archive.read(f"{info}/entry_points.txt").decode()
    if (about["Name"], about["Version"]) != (DISTRIBUTION, __version__):
        yield f"it calls itself {about['Name']} {about['Version']}"
    declared = {_name(line) for line in project["dependencies"]}
    if not declared <= {_name(line) for line in about.get_all("Requires-Dist", [])}:
        yield "it does not ask for all it needs"
    yield from (f"the script {name} is missing" for name in project["scripts"] if f"{name} = " not in scripts)


def build(target: Path) -> list[Path]:
    """The sdist and the wheel, made by the tools that the lock file names."""
    for old in target.glob(f"{DISTRIBUTION.replace('-', '_')}-*"):
        old.unlink()
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(REPO)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return sorted(target.glob(f"*-{__version__}*"))


def starts(wheel: Path) -> bool:
    """Whether the program in a wheel runs and tells its version."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        env = dict(os.environ, PYTHONPATH=folder)
        code = "import mcp_memory.__main__ as program; print(program.__file__)"
        found, told = (
            subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True).stdout
            for words in (("-c", code), ("-m", "mcp_memory", "--version"))
        )
        return found.startswith(folder) and __version__ in told


def main() -> int:
    if late := outdated():
        sys.stderr.write(f"out of date: {', '.join(late)}. Run: python -m release.manifests\n")
        return 1
    target = REPO / "dist"
    made = build(target)
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    wheel = next(path for path in made if path.suffix == ".whl")
    found = [*faults(wheel, project), *(() if starts(wheel) else ("its program does not start",))]
    if found:
        sys.stderr.write("".join(f"{wheel.name}: {fault}\n" for fault in found))
        return 1
    paper = target / f"{wheel.name.partition('-py3')[0]}.cdx.json"
    lock = (REPO / "requirements.lock").read_text("utf-8")
    paper.write_text(json.dumps(bill(lock, project, datetime.now(UTC)), indent=2) + "\n", "utf-8")
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in (*made, paper))
    (target / "SHA256SUMS").write_text(sums, "utf-8")
    sys.stdout.write(sums)
    return 0


if __name__ == "__main__":
    sys.exit(main())
