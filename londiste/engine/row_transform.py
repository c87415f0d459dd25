"""Row transformation in a copy: changes the lines of COPY's text format between the servers."""

from __future__ import annotations

import re
from collections.abc import Callable

from londiste.db.copy import unescaped
from londiste.engine.spec import CopySpec

_ESCAPED = {
    "\\": r"\\",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\b": r"\b",
    "\f": r"\f",
    "\v": r"\v",
}
_ESCAPE = re.compile(r"[\\\n\r\t\x08\f\v]")


def changing(spec: CopySpec) -> Callable[[bytes], bytes]:
    """What makes of a line of the source's COPY the line of the target's; both sides are UTF-8."""
    function, pairs = spec.rows, spec.columns
    assert function is not None

    def change(line: bytes) -> bytes:
        values = line.decode().removesuffix("\n").split("\t")
        image = {name: unescaped(value) for (name, _), value in zip(pairs, values, strict=True)}
        after = function(image)
        return ("\t".join([_field(after.get(name)) for name, _ in pairs]) + "\n").encode()

    return change


def _field(value: str | None) -> str:
    return r"\N" if value is None else _ESCAPE.sub(lambda found: _ESCAPED[found[0]], value)
