"""Origin of a lake table: the queue whose changes it has, as its commits name it.

The position in a commit proves more: it is of one queue, whatever that is called.  These words say
whose directory it is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from londiste.dsn import place

if TYPE_CHECKING:
    from londiste.lake.settings import LakeSettings

_OF = " of database "


def of(settings: LakeSettings) -> str:
    """That of a lake; without the database where its name is not in the settings."""
    database = place(settings.db, os.environ)[-1]
    return (
        f"queue {settings.queue_name}{_OF}{database}"
        if database
        else f"queue {settings.queue_name}"
    )


def differs(there: str, here: str, *, lost: bool) -> bool:
    """Whether a table is of another queue.  Pure.

    there -- as its commits say, '' in those of earlier releases, where only the position counts;
        here -- as the settings say, '' for a reader.
    lost -- its position is of no queue here.  Otherwise the database may have got another name.
    """
    if not there or not here:
        return lost and bool(here)
    (queue, _, database), (own, _, present) = there.partition(_OF), here.partition(_OF)
    return queue != own or bool(lost and database and present and database != present)
