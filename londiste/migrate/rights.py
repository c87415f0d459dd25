"""Owners, grants and comments of objects that belong to no table, for ``--schema create``.

A function that runs as its owner, and a view, which reads as its owner, would otherwise get the
rights of the role that runs the migration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from londiste.db.connection import Connection
from londiste.db.ddl import literal
from londiste.db.names import quote
from londiste.db.queries import fetch

#: The schema that is always there: kind and signature.
PUBLIC = ("schema", "public")

_MAINTAIN = 170000


@dataclass(frozen=True)
class Grant:
    """A privilege of a role; ``grantee`` None is PUBLIC."""

    grantee: str | None
    privilege: str
    grantable: bool = False


@dataclass(frozen=True)
class Rights:
    """Owner and grants of an object; fields as in ``migrate_rights``."""

    kind: str
    signature: str
    owner: str
    comment: str | None = None
    closed: bool = False
    grants: tuple[Grant, ...] = ()


def rights(conn: Connection) -> tuple[Rights, ...]:
    """Owners and grants of all schemas, functions, sequences and views."""
    return tuple(
        Rights(grants=tuple(Grant(**one) for one in row.pop("grants")), **row)
        for row in fetch(conn, "migrate_rights")
    )


def roles(conn: Connection) -> dict[str, bool]:
    """The roles of a server, and whether this session may make each an owner."""
    return dict(
        conn.execute(
            "select r.rolname::text, u.rolsuper or pg_catalog.pg_has_role(r.oid, 'MEMBER')"
            " from pg_catalog.pg_roles r, pg_catalog.pg_roles u where u.rolname = current_user"
        ).fetchall()
    )


def restore(
    found: Iterable[Rights],
    made: Collection[tuple[str, str]],
    known: Mapping[str, bool],
    version: int,
) -> tuple[Sequence[str], Sequence[str]]:
    """The statements that set owners, grants and comments, and notices about skipped ones.

    made -- kind and signature of the objects; of ``PUBLIC`` only what named roles may do is given.
    known -- ``roles`` of the new server; version -- its release.
    """
    statements: list[str] = []
    notes: list[str] = []
    for one in found:
        if (one.kind, one.signature) not in made:
            continue
        public = (one.kind, one.signature) == PUBLIC
        name = f"{one.kind} {one.signature}"
        grants = [g for g in one.grants if not public or g.grantee is not None]
        if one.closed:
            statements.append(f"revoke all on {name} from public")
        statements += _granted(name, grants, known, version, notes)
        if one.comment is not None and not public:
            statements.append(f"comment on {name} is {literal(one.comment)}")
        if public:
            continue
        # Behind the grants: afterwards it may not be ours any more.
        if known.get(one.owner):
            statements.append(f"alter {name} owner to {quote(one.owner)}")
        else:
            why = "cannot be set by you" if one.owner in known else "does not exist"
            notes.append(f"{name} belongs to you: its owner, role {one.owner}, {why}")
    return statements, list(dict.fromkeys(notes))


def _granted(
    name: str,
    grants: Iterable[Grant],
    known: Mapping[str, bool],
    version: int,
    notes: list[str],
) -> list[str]:
    result = []
    on = name.removeprefix("materialized ").removeprefix("view ")
    for (grantee, grantable), group in groupby(grants, key=lambda g: (g.grantee, g.grantable)):
        if grantee is not None and grantee not in known:
            notes.append(f"role {grantee} does not exist: its grants are skipped")
            continue
        words = [g.privilege for g in group if g.privilege != "MAINTAIN" or version >= _MAINTAIN]
        if words:
            who = "public" if grantee is None else quote(grantee)
            option = " with grant option" if grantable else ""
            result.append(f"grant {', '.join(words)} on {on} to {who}{option}")
    return result
