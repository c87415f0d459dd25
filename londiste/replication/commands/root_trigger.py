"""Default capture trigger of the root's tables, with respect to nodes of Londiste 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from londiste.cascade import original
from londiste.db.connection import Connection
from londiste.db.queries import tuples
from londiste.errors import UsageError
from londiste.orchestration.connections import Connections
from londiste.replication.model import TRIGGERS, TableOptions, with_trigger

_ADOPT = "in the databases of these nodes: londiste install --adopt"


def choose(
    sites: Connections, conn: Connection, queue: str, options: TableOptions, *, force: bool
) -> tuple[TableOptions, tuple[str, ...]]:
    """The options with a trigger that all nodes can read, and a note about it.

    force -- use the native capture; the operator confirms that no worker of Londiste 3 is left.

    Raises UsageError for the native capture above nodes of Londiste 3.
    """
    words = with_trigger(options.words(root=True))
    if force or not any(word.startswith("tgflags=") and "C" in word for word in words):
        return options, ()
    own = (
        TRIGGERS.get(options.trigger) == "C"
        or "C" in options.trigger_flags.upper()
        or bool(options.form)
        or options.whole_row
        or any(arg.startswith(("form=", "ops=")) for arg in options.trigger_args)
    )
    names = unable(sites, conn, queue)
    if names and own:
        raise cannot_read(names)
    if names:
        return replace(options, trigger="logutriga"), (
            f"captured with logutriga, because {listed(names)} cannot read the native capture;"
            " after upgrading them: londiste change-form --all --trigger capture",
        )
    return options, ()


def unable(sites: Connections, conn: Connection, queue: str) -> list[str]:
    """The nodes that cannot read the native capture."""
    kinds = {kind for _, kind, *_ in tuples(conn, "capture_triggers", queue=queue)}
    adopted = not kinds.isdisjoint({"logutriga", "sqltriga", "jsontriga"})
    return original.originals(sites, conn, queue, adopted=adopted)


def cannot_read(names: Sequence[str]) -> UsageError:
    """The error for the native capture above nodes of Londiste 3."""
    return UsageError(
        f"{listed(names)} cannot read events of the native capture",
        detail="the worker of Londiste 3 fails at the first packed event or TRUNCATE; nothing was"
        " changed",
        hint=f"use --trigger logutriga; or, {_ADOPT}, and start this version's worker there;"
        " or, when that is done: --ignore-old-workers",
    )


def listed(names: Sequence[str]) -> str:
    """Lists nodes of Londiste 3 for a message."""
    one = len(names) == 1
    return f"{'node' if one else 'nodes'} {', '.join(names)} with the worker of Londiste 3"
