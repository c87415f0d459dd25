"""Errors of scripts that cannot run on a node, and what its operator can do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from londiste.db.names import word
from londiste.errors import LondisteError, ScriptFailed
from londiste.replication.ddl.sqlapi import Script

#: Where rows of a replicated table can be written by hand.
AS_REPLICA = "below the root rows in a session with set session_replication_role = replica"


def choices(name: str) -> str:
    """Hint for a failed script."""
    name = word(name)
    return (
        f"remove the cause, then on that node: londiste execute retry {name}, or londiste execute"
        f" skip {name}, or, after doing its work by hand ({AS_REPLICA}), londiste execute mark-done"
        f" {name} and londiste compare"
    )


def still_failed(script: Script, event_id: int | None = None) -> ScriptFailed:
    """Error of a script that failed before and waits for the operator."""
    return ScriptFailed(
        script.error or f"script {script.name} has failed",
        detail="it is not retried automatically",
        hint=choices(script.name),
        event_id=event_id,
        statement=script.statement,
        known=True,
    )


def failed(
    name: str, node: str, message: str, detail: str, hint: str, event_id: int | None
) -> ScriptFailed:
    """Error of a script that cannot run."""
    return ScriptFailed(
        f"script {name} failed on node {node}: {message}",
        detail=detail,
        hint="; ".join(filter(None, [hint, choices(name)])),
        event_id=event_id,
    )


@contextlib.contextmanager
def refusing(
    name: str, node: str, event_id: int | None, *kinds: type[LondisteError]
) -> Iterator[None]:
    """Turns errors of these kinds into that of a script that cannot run."""
    try:
        yield
    except kinds as error:
        raise failed(name, node, error.message, error.detail, error.hint, event_id) from error
