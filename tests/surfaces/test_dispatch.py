"""Every command finds its function, and loads no more than it needs."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from mcp_memory.surfaces import dispatch
from mcp_memory.surfaces.cli import parser


def commands() -> list[str]:
    [found] = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return sorted(found.choices)


@pytest.mark.parametrize("command", commands())
def test_every_command_finds_its_function(command: str) -> None:
    elsewhere = {"serve": "serving.serve", "doctor": "doctor.doctor"}
    name = (dispatch.COMMANDS | dispatch.WITHOUT_MEMORY | elsewhere)[command]
    assert callable(dispatch.function(name))


def test_writing_does_not_load_the_read_side() -> None:
    code = (
        "import sys; from mcp_memory.surfaces import dispatch; dispatch.function('writing.load'); "
        "print(*[name for name in sys.modules if name.startswith('mcp_memory.navigate.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
