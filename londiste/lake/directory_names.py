"""Names of the directories in which a lake has its tables."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote, unquote

from londiste.db.names import TableName

#: Bytes of a file's name.
_MAX_NAME = 255
#: Before a digest; no other name contains it.
SHORTENED = "~~"


def directory_name(table: TableName, *, local: bool = True) -> str:
    """Name of the directory of a table: Delta's readers do not open a directory with ``%``.

    local -- it is in a file system: what is too long there has a digest at its end.
    """
    whole = quote(str(table), safe=".-_ ").replace("~", "~7E").replace("%", "~")
    if not local or len(whole) <= _MAX_NAME:
        return whole
    return f"{whole[:200]}{SHORTENED}{hashlib.sha256(str(table).encode()).hexdigest()[:16]}"


def table_of(name: str) -> TableName:
    """The other way round; the name of a table ends in … where that of its directory is cut."""
    whole, cut, _ = name.partition(SHORTENED)
    if cut:
        whole = re.sub("~.?$", "", whole)
    return TableName.parse(unquote(whole.replace("~", "%")) + ("…" if cut else ""))
