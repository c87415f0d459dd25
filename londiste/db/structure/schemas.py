"""DDL of schemas that created objects need, with owner and grants."""

from __future__ import annotations

from collections.abc import Iterable

from londiste.db.names import quote
from londiste.db.structure.context import TargetContext
from londiste.db.structure.types import Part


def statements(
    target: TargetContext, names: Iterable[str], *, repeatable: bool = False
) -> list[str]:
    """CREATE SCHEMA for those of the schemas that are missing; missing roles are noted.

    repeatable -- for hints, of which several may name one schema.
    """
    result = []
    word = "create schema if not exists" if repeatable else "create schema"
    for name in sorted(set(names) - target.there.schemas):
        create, one = f"{word} {quote(name)}", target.schemas.get(name)
        if one is not None and Part.OWNER in target.parts:
            why = target.owner_problem(one.owner)
            if why:
                target.note(f"schema {name} is owned by you: its owner, role {one.owner}, {why}")
            else:
                create += f" authorization {quote(one.owner)}"
        result.append(create)
        if one is not None and Part.GRANTS in target.parts:
            result += target.granted(f"schema {quote(name)}", one.grants)
    return result
