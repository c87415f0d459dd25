"""Cuts a batch at its scripts: events before a script are written before it.

Few blocks contain a script; the check costs one search through the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from londiste.pgq.blocks import EventBlock

#: Position of the type among the fields of an event.
_TYPE = 4
_SCRIPT = b"EXECUTE"
#: Bytes in which the first fields of an event are, up to a type as short as this.
_HEAD = 256


def has_script(block: EventBlock) -> bool:
    """Whether one of the events is a script."""
    if len(block) == 1:
        # Perhaps a long one, of which nobody shall make another copy.
        return _is_script(block.head(_HEAD))
    data = block.data
    return b"\tEXECUTE\t" in data and any(_is_script(line) for line in data.split(b"\n"))


def cut(block: EventBlock) -> Iterator[tuple[EventBlock, bool]]:
    """The block in pieces, in their order, and whether a piece is a script, which stands alone."""
    if len(block) == 1:
        yield block, has_script(block)
        return
    rest: list[bytes] = []
    for line in block.data.split(b"\n"):
        if not line:
            continue
        if not _is_script(line):
            rest.append(line + b"\n")
            continue
        if rest:
            yield EventBlock(b"".join(rest), len(rest)), False
            rest = []
        yield EventBlock(line + b"\n", 1), True
    if rest:
        yield EventBlock(b"".join(rest), len(rest)), False


def _is_script(line: bytes) -> bool:
    fields = line.split(b"\t", _TYPE + 1)
    return len(fields) > _TYPE + 1 and fields[_TYPE] == _SCRIPT
