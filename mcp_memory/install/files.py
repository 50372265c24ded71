"""Settings files on the disk: read as text that can be written back byte for byte, replaced whole or not at all."""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from mcp_memory.errors import MemoryFault
from mcp_memory.install import settings_json, settings_toml
from mcp_memory.install.jsonc_read import JsonError
from mcp_memory.install.settings_toml import TomlError


def read(path: Path) -> bytes | None:
    """What the file holds; None if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MemoryFault(f"{path} cannot be read: {error.strerror}. Nothing was changed.") from error


def decode(data: bytes) -> tuple[str, bytes]:
    """The text, and the byte order mark before it, if there is one."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    return data[len(mark) :].decode("utf-8"), mark


def editor(path: Path) -> ModuleType:
    """The module that edits files of this kind: it has `register`, `withdraw` and `find`."""
    return settings_toml if path.suffix == ".toml" else settings_json


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn what is wrong with a file into an error that says what to do about it."""
    try:
        yield
    except (JsonError, TomlError, UnicodeDecodeError) as error:
        raise MemoryFault(
            f"{path} cannot be edited: {error}. Correct the file, or move it away, and run the command again; "
            "nothing was changed."
        ) from error


def digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def missing_folders(path: Path) -> list[Path]:
    """The directories that would have to be made for this file, innermost first."""
    return [folder for folder in path.parents if not folder.exists()]


def replace(path: Path, expected: bytes | None, data: bytes | None, *, private: bool) -> None:
    """Give the file new contents, or remove it. Refused if it is no longer what the change was made from."""
    target = Path(os.path.realpath(path))  # a link into a directory of dotfiles stays a link
    if read(target) != expected:
        raise MemoryFault(f"{path} was changed by another program in this moment. Run the command again.")
    try:
        if data is None:
            target.unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
        _write(target, data, _mode(target, private))
    except OSError as error:
        raise MemoryFault(f"{path} cannot be written: {error.strerror}.") from error


def _mode(path: Path, private: bool) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return 0o600 if private else 0o644


def _write(path: Path, data: bytes, mode: int) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
