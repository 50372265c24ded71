"""A terminal to run programs in: what is typed into it, and what it shows."""

from __future__ import annotations

import codecs
import os
import re
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("terminals are opened by POSIX's means", allow_module_level=True)

import fcntl
import termios

#: A key sequence of the terminal, with its numbers and its letter; or a title, a mode, or an end of line and the like.
_SEQUENCE = re.compile(
    r"\x1b\[([0-9;?>=]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()].|\x1b[=>78]|[\x00-\x1f]"
)
#: Lines and columns.
_SIZE = 30, 110
#: No test waits longer for what a terminal should show.
_PATIENCE_SECONDS = 60.0


class Screen:
    """What a terminal shows, as far as programs draw with the usual sequences."""

    def __init__(self, lines: int, columns: int) -> None:
        self._size = lines, columns
        self._cells = [[" "] * columns for _ in range(lines)]
        self._line = self._column = 0

    @property
    def text(self) -> str:
        return "\n".join("".join(cells).rstrip() for cells in self._cells)

    def feed(self, text: str) -> None:
        at = 0
        for match in _SEQUENCE.finditer(text):
            self._write(text[at : match.start()])
            at = match.end()
            if match[2]:
                self._do(match[2], [int(number) for number in re.findall(r"\d+", match[1])])
            else:
                self._control(match[0])
        self._write(text[at:])

    def _write(self, text: str) -> None:
        for char in text:
            if self._column == self._size[1]:
                self._column = 0
                self._down()
            self._cells[self._line][self._column] = char
            self._column += 1

    def _down(self) -> None:
        if self._line + 1 < self._size[0]:
            self._line += 1
        else:
            self._cells = [*self._cells[1:], [" "] * self._size[1]]

    def _control(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\n":
            self._down()
        elif char == "\b":
            self._column = max(0, self._column - 1)

    def _do(self, letter: str, numbers: list[int]) -> None:
        many = max(1, numbers[0] if numbers else 1)
        if letter in "AB":
            self._line = min(max(self._line + (many if letter == "B" else -many), 0), self._size[0] - 1)
        elif letter in "CD":
            self._column = min(max(self._column + (many if letter == "C" else -many), 0), self._size[1] - 1)
        elif letter == "H":
            self._line, self._column = many - 1, (numbers[1] if len(numbers) > 1 else 1) - 1
        elif letter in "JK":
            whole = numbers[:1] == [2]
            start = 0 if whole else self._column
            self._cells[self._line][start:] = [" "] * (self._size[1] - start)
            first = 0 if whole else self._line + 1
            for line in range(first, self._size[0] if letter == "J" else first):
                self._cells[line] = [" "] * self._size[1]


class Terminal:
    """A program on a terminal of its own; `raw` is all that it ever sent there."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process, self._descriptor = process, descriptor
        self.raw = b""
        self._screen = Screen(*_SIZE)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def shows(self, text: str) -> None:
        """Wait until the terminal shows a text."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while text not in self._screen.text:
            assert time.monotonic() < end, f"{text!r} is not in {self._screen.text}"
            assert self._read(end), f"the program ended without {text!r}: {self._screen.text}"

    def ends(self) -> int:
        """Wait for the program's end; its exit code."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while self._read(end):
            assert time.monotonic() < end, f"the program does not end: {self._screen.text}"
        return self.process.wait(_PATIENCE_SECONDS)

    def _read(self, end: float) -> bool:
        """Take in what has come; False once the program has closed its terminal."""
        ready, _, _ = select.select([self._descriptor], [], [], max(0.0, end - time.monotonic()))
        try:
            part = os.read(self._descriptor, 65_536) if ready else b""
        except OSError:  # how Linux tells that the other end is closed
            return False
        # Programs ask where the cursor is, and may wait for an answer.
        if b"\x1b[6n" in part:
            os.write(self._descriptor, b"\x1b[1;1R")
        self.raw += part
        self._screen.feed(self._decoder.decode(part))
        return bool(part)


def drawn(command: Sequence[str], cwd: Path, env: Mapping[str, str], columns: int) -> tuple[int, str]:
    """The exit code of a program and what it prints on a terminal of that width, with the codes for its looks."""
    mine, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", _SIZE[0], columns, 0, 0))
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=subprocess.DEVNULL,
        cwd=cwd,
        env={"TERM": "xterm-256color", "LANG": "C.UTF-8", **env},
    )
    os.close(its)
    raw = b""
    try:
        while part := os.read(mine, 65_536):
            raw += part
    except OSError:  # how Linux tells that the other end is closed
        pass
    os.close(mine)
    return process.wait(_PATIENCE_SECONDS), raw.decode().replace("\r\n", "\n")


@contextmanager
def terminal(command: Sequence[str], cwd: Path, env: Mapping[str, str], out: Path | None = None) -> Iterator[Terminal]:
    """Run a program on a terminal; with `out`, its stdout goes to that file instead."""
    mine, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", *_SIZE, 0, 0))
    file = out.open("wb") if out else None
    process = subprocess.Popen(
        command,
        stdin=its,
        stdout=file or its,
        stderr=its,
        cwd=cwd,
        env={"TERM": "xterm-256color", "LANG": "C.UTF-8", **env},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(its)
    if file:
        file.close()
    try:
        yield Terminal(process, mine)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(mine)
