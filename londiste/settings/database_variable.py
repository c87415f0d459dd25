"""``LONDISTE_DB`` beside the file of a cascade: which of the two names the database.

A file that was only found in the current directory does not keep a command that needs one database
from the one that the variable names.  Everywhere else the nodes of the file decide, and a variable
that names another database is refused, not ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Literal

from londiste.errors import BadOption
from londiste.settings.cascade_file import JOBS, CascadeFile, same_place
from londiste.settings.earlier import OTHER_NAMES
from londiste.settings.fields import ENV_PREFIX, Settings

#: What the variable does: the program names the nodes; the user asks for a node of the file, or
#: for whatever database is named.
Effect = Literal["ignored", "refused", "wins"]


def _variables(key: str) -> tuple[str, ...]:
    others = (other for other, present in OTHER_NAMES.items() if present == key)
    return tuple(ENV_PREFIX + name.upper() for name in (key, *others))


#: Its names.
VARIABLES = _variables("db")


def given() -> tuple[str, str]:
    """The variable and the connection string in it; empty without one."""
    return next(((name, os.environ[name]) for name in VARIABLES if os.environ.get(name)), ("", ""))


def needs_only_a_database(kind: type[Settings]) -> bool:
    """Pure: programs that know no queue work on a database, and other than the worker's on any."""
    return kind.sections[0] != "londiste" or "queue_name" not in kind.model_fields


def overrules(
    kind: type[Settings], file: CascadeFile, databases: Iterable[str], effect: Effect, node: str
) -> bool:
    """Whether the variable names the database of a program, and not the file.

    databases -- of the program, by the file.  node -- that the call names; '' without one.

    Raises BadOption for another database than those where the file decides.
    """
    variable, dsn = given()
    if not dsn or effect == "ignored" or not _connects(kind):
        return False
    free = needs_only_a_database(kind) and kind.sections[0] not in JOBS
    if free and effect == "wins":
        return True
    if not same_place(dsn, databases):
        raise _another(file, variable, dsn, node=node, free=free)
    return False


def is_elsewhere(file: CascadeFile) -> bool:
    """Whether the variable names a database that no node of the file has."""
    dsn = given()[1]
    return bool(dsn) and file.at(dsn) is None


def require_known(file: CascadeFile) -> None:
    """Raises BadOption if the variable names a database that no node of the file has."""
    if is_elsewhere(file):
        raise _another(file, *given())


def require_same_queue(file: CascadeFile) -> None:
    """Raises BadOption if the environment names another queue than the file, whose nodes it has."""
    for name in _variables("queue_name"):
        if os.environ.get(name, file.queue) != file.queue:
            raise BadOption(
                f"{name} names one queue, and {file.path} has queue {file.queue}",
                hint=f"unset {name}; or give the settings file of the other queue: -c FILE",
            )


def _connects(kind: type[Settings]) -> bool:
    """Pure: whether the setting db has an effect: some commands name their databases otherwise."""
    own = kind.model_fields.get("db")
    return own is not None and (own.is_required() or "databases" in kind.model_fields)


def _another(
    file: CascadeFile, variable: str, dsn: str, *, node: str = "", free: bool = False
) -> BadOption:
    there = file.at(dsn)
    hint = f"unset {variable}"
    if free:
        hint += f'; or, for its database: --db "${variable}"'
    elif there and not node:
        hint = f"give its node: --node {there}; or {hint}"
    whose = f"node {node} of {file.path} has" if node else f"{file.path} has"
    return BadOption(f"{variable} names one database, and {whose} another", hint=hint)
