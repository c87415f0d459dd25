"""Files of new servers, copied from those of the first one of a run: initdb takes 0.6 s.

A copy has an identifier of its own, as files that initdb made: servers are told apart by it.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from londiste.embedded import files, process
from londiste.embedded.account import Account
from londiste.embedded.binaries import Binaries
from londiste.embedded.process import Watch

_initdb = files.initdb
#: Where the files to copy from are, for all processes of the run; None: nothing is copied.
_place: Path | None = None


def keep_in(place: Path) -> None:
    """The files of the first server of each release are kept there."""
    global _place
    place.mkdir(exist_ok=True)
    _place = place


@contextlib.contextmanager
def copied() -> Iterator[None]:
    """Servers that start meanwhile get copied files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "initdb", _copy)
        yield


def _copy(
    directory: Path, binaries: Binaries, account: Account, log: Path, watch: Watch | None
) -> None:
    """As ``files.initdb``."""
    if _place is None or not (binaries.bindir / "pg_resetwal").is_file():
        return _initdb(directory, binaries, account, log, watch)
    kept = _place / str(binaries.version)
    if not kept.exists():
        _initdb(directory, binaries, account, log, watch)
        made = _place / secrets.token_hex(8)
        made.mkdir()
        for name in ("data", "password"):
            _copy_tree(directory / name, made)
        try:
            made.rename(kept)
        except OSError:
            # Another process was quicker.
            shutil.rmtree(made)
        return None
    building = directory / "data.new"
    for name, place in (("data", building), ("password", directory / "password")):
        _copy_tree(kept / name, place)
    _give_identifier(building / "global" / "pg_control")
    reset = [binaries.program("pg_resetwal"), "-f", "-D", building]
    with log.open("ab") as output:
        assert process.start(reset, account, output).wait(60) == 0, files.tail(log)
    building.rename(directory / "data")
    return None


def _copy_tree(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-Rp", source, target], check=True)


def _give_identifier(control: Path) -> None:
    """Replaces the first eight bytes, and the checksum, wherever this release has it."""
    old = control.read_bytes()
    end = next(
        at for at in range(8, len(old), 4) if struct.unpack_from("=I", old, at)[0] == _crc(old[:at])
    )
    new = struct.pack("=Q", secrets.randbits(62)) + old[8:end]
    control.write_bytes(new + struct.pack("=I", _crc(new)) + old[end + 4 :])


def _crc(data: bytes) -> int:
    """CRC-32C, which Python's libraries do not have."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
