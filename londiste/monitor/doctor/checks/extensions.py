"""Checks of extensions, and of other objects that tables need and the target lacks."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db.names import TableName
from londiste.db.structure.context import TargetContext
from londiste.db.structure.remedies import elsewhere, of_extension
from londiste.db.structure.types import Extension, Part, Structures, There
from londiste.monitor.doctor.situation import Situation, critical, warning
from londiste.monitor.queues.model import Finding

FINDINGS = {
    "extension": "extension that the target server does not offer",
    "extension-missing": "extension that is not created on the target",
    "extension-schema": "extension that is in another schema on the target",
    "object": "object that missing tables need, and that is not created with them",
}


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about extensions, and about objects that missing tables need."""
    if pair.target is None:
        return
    side = pair.names[1]
    there = {o.name for o in pair.target.objects if o.kind == "extension"}
    for one in pair.source.objects:
        if one.kind != "extension":
            continue
        name = one.name or ""
        if name in there:
            yield from _elsewhere(pair, name)
        elif name not in pair.target.extensions:
            yield critical(
                "extension",
                f"extension {name} is not available on the {side} server",
                "objects that use it cannot be created there",
                f"install its package on the {side} server",
                side=side,
                object=name,
            )
        elif not pair.whole:
            yield warning(
                "extension-missing",
                f"extension {name} is not created in the {side} database",
                "columns of its types, and indexes and defaults that use it, need it",
                side=side,
                object=name,
                admin_sql=_statements(pair, name),
            )
    yield from _lacks(pair)


def _elsewhere(pair: Situation, name: str) -> Iterator[Finding]:
    """A finding about an extension that both have, in different schemas."""
    here, side = pair.names
    assert pair.target is not None
    ours, theirs = (x.more.extensions_at.get(name) for x in (pair.source, pair.target))
    if ours is None or theirs is None or not elsewhere(ours, theirs):
        return
    sql = _statements(pair, name)
    yield warning(
        "extension-schema",
        f"extension {name} is in schema {theirs.schema} of the {side} database, in schema"
        f" {ours.schema} of the {here} one",
        f"tables with its types and functions cannot be created from the {here}",
        "" if sql else f"as an administrator: drop it, and create it again in schema {ours.schema}",
        side=side,
        object=name,
        admin_sql=sql,
        admin=True,
    )


def _statements(pair: Situation, name: str) -> tuple[str, ...]:
    """What an administrator of the target executes for an extension."""
    ours, theirs = pair.source, pair.target
    assert theirs is not None
    names = {o.name for o in theirs.objects if o.kind == "schema" and o.name}
    return of_extension(
        TargetContext(
            Structures((), (), ours.version, {}, ours.more.extension_schemas),
            There(
                theirs.version,
                schemas=frozenset(names),
                roles=dict.fromkeys(theirs.roles, True),
                extensions=theirs.more.extensions_at,
            ),
            {},
            frozenset({Part.GRANTS}),
        ),
        ours.more.extensions_at.get(name) or Extension(name, None),
    )


def _lacks(pair: Situation) -> Iterator[Finding]:
    """Findings about what tables need that are to be created on the target."""
    assert pair.target is not None
    here, side = pair.names
    there = {o.name for o in pair.target.objects if o.kind == "extension"}
    #: Findings of other kinds, or shown already.
    known = {("type", str(TableName(t.schema, t.name))) for t in pair.source.more.types}
    for one in pair.lacks:
        of = ("extension", one.extension) if one.extension else (one.kind, one.name)
        if of not in known and (one.extension is None or one.extension in there):
            known.add(of)
            yield critical(
                "object",
                f"{one} does not exist in the {side} database",
                f"{one.wanted_by}; it is not created from the {here}",
                "" if one.sql else f"in the {side} database: {one.hint}",
                side=side,
                object=one.name,
                sql=one.sql,
            )
