"""DDL of a table's objects: keys, indexes, statistics, triggers, rules, policies, privileges."""

from __future__ import annotations

from itertools import groupby

from londiste.db.names import TableName, quote
from londiste.db.structure import releases
from londiste.db.structure.context import TargetContext, option_list
from londiste.db.structure.names import replace_name, replace_table
from londiste.db.structure.types import (
    Constraint,
    Index,
    Part,
    PendingKey,
    RowPolicy,
    Structure,
    Trigger,
)
from londiste.errors import UsageError

_ENABLE = {"A": "enable always", "R": "enable replica", "D": "disable"}
_COMMANDS = {"r": "select", "a": "insert", "w": "update", "d": "delete", "*": "all"}


def keys(target: TargetContext, table: Structure) -> list[str]:
    """Primary key, unique and exclusion constraints."""
    result = []
    alter = f"alter table only {target.to(table.name).quoted}"
    for one in table.constraints:
        index = next((i for i in table.indexes if i.constraint == one.name), None)
        wanted = one.kind == "p" or (one.kind in {"u", "x"} and Part.UNIQUE in target.parts)
        if not wanted or index is None or _comes_with_parent(target, index):
            continue
        if releases.of_constraint(table, one) > target.there.version:
            _no_key(target, table, one)
            continue
        name = quote(target.of(table, one.name))
        result.append(f"{alter} add constraint {name} {one.definition}")
        if index.options and Part.OPTIONS in target.parts:
            where = _index(target, table, index).quoted
            result.append(f"alter index {where} set {option_list(index.options)}")
        result += _index_after(target, table, index)
    return result


def indexes(target: TargetContext, table: Structure) -> list[str]:
    """Indexes that implement no constraint."""
    if Part.INDEXES not in target.parts:
        return []
    dest = target.to(table.name)
    result = []
    for one in table.indexes:
        if one.constraint is not None or _comes_with_parent(target, one):
            continue
        if not one.valid and table.kind == "r":
            target.note(f"index {one.name} is skipped: it is invalid")
            continue
        since = releases.of_index(one)
        if since > target.there.version:
            target.note(
                f"index {one.name} of table {dest} is skipped: NULLS NOT DISTINCT needs"
                f" {releases.name(since)}"
            )
            continue
        where = _index(target, table, one)
        text = replace_name(one.definition, "INDEX", one.name, where.name)
        moved = replace_table(text, "ON ONLY", table.name, dest) or replace_table(
            text, "ON", table.name, dest
        )
        result.append(moved or text)
        result += _index_after(target, table, one)
        for number, goal in sorted(one.statistics.items()):
            if Part.OPTIONS in target.parts:
                result.append(
                    f"alter index {where.quoted} alter column {number} set statistics {goal}"
                )
    return result


def attach_indexes(target: TargetContext, table: Structure) -> list[str]:
    """Indexes of a partition become parts of those of the table that it is attached to."""
    if table.bound is None or not target.attached_to(table):
        return []
    result = []
    for one in table.indexes:
        parent = target.made.get(one.parent_table) if one.parent_table else None
        made = one.constraint is not None or Part.INDEXES in target.parts
        if parent is None or one.parent is None or not made:
            continue
        if releases.of_index(one) > target.there.version:
            continue
        above = next(i for i in parent.indexes if i.name == one.parent)
        if above.constraint and not _made_key(target, parent, above.constraint):
            continue
        result.append(
            f"alter index {_index(target, parent, above).quoted} attach partition"
            f" {_index(target, table, one).quoted}"
        )
    return result


def statistics(target: TargetContext, table: Structure) -> list[str]:
    """Extended statistics."""
    if Part.STATISTICS not in target.parts:
        return []
    result = []
    for one in table.statistics:
        name = target.statistics[one.name]
        text = replace_table(one.definition, "STATISTICS", one.name, name) or one.definition
        text = replace_table(text, "FROM", table.name, target.to(table.name)) or text
        result.append(text)
        if one.target is not None:
            result.append(f"alter statistics {name.quoted} set statistics {one.target}")
        result += target.comment(f"statistics {name.quoted}", one.comment)
    return result


def replica_identity(target: TargetContext, table: Structure) -> list[str]:
    """FULL and NOTHING; USING INDEX is rendered with the index."""
    word = {"f": "full", "n": "nothing"}.get(table.replica_identity)
    if word is None or Part.OPTIONS not in target.parts:
        return []
    return [f"alter table only {target.to(table.name).quoted} replica identity {word}"]


def triggers(target: TargetContext, table: Structure) -> list[str]:
    """User triggers."""
    if Part.TRIGGERS not in target.parts:
        return []
    result = []
    dest = target.to(table.name)
    for one in table.triggers:
        name = target.of(table, one.name)
        if one.cloned and target.attached_to(table):
            if one.enabled != one.parent_enabled:
                word = _ENABLE.get(one.enabled, "enable")
                result.append(f"alter table only {dest.quoted} {word} trigger {quote(name)}")
            continue
        text = replace_name(one.definition, "TRIGGER", one.name, name)
        text = replace_table(text, "ON", table.name, dest) or text
        if one.from_other:
            text = _from_other(target, text)
        result.append(text)
        result += _enable(dest, one, name)
        result += target.comment(f"trigger {quote(name)} on {dest.quoted}", one.comment)
    return result


def rules(target: TargetContext, table: Structure) -> list[str]:
    """Rewrite rules; a rule that names a renamed table is skipped with a note."""
    if Part.RULES not in target.parts:
        return []
    result = []
    dest = target.to(table.name)
    for one in table.rules:
        name = target.of(table, one.name)
        text = replace_name(one.definition, "RULE", one.name, name)
        text = (replace_table(text, "TO", table.name, dest) or text).rstrip("; \n")
        other = target.elsewhere(text) if table.name == dest else _beside(target, text, dest)
        if other is not None:
            target.note(
                f"rule {one.name} of table {dest} is skipped: it names {other}, which is"
                f" {target.to(other)} in the target; create it manually"
            )
            continue
        result.append(text)
        if one.enabled != "O":
            word = _ENABLE.get(one.enabled, "enable")
            result.append(f"alter table {dest.quoted} {word} rule {quote(name)}")
        result += target.comment(f"rule {quote(name)} on {dest.quoted}", one.comment)
    return result


def policies(target: TargetContext, table: Structure) -> list[str]:
    """Row security and its policies."""
    if Part.POLICIES not in target.parts:
        return []
    dest = target.to(table.name)
    result = [text for one in table.policies for text in _policy(target, table, dest, one)]
    if table.row_security:
        result.append(f"alter table {dest.quoted} enable row level security")
    if table.force_row_security:
        result.append(f"alter table {dest.quoted} force row level security")
        target.note(
            f"table {dest} forces row security on its owner: a worker with the owner's role"
            " needs BYPASSRLS"
        )
    return result


def foreign_keys(target: TargetContext, table: Structure) -> tuple[list[str], list[PendingKey]]:
    """Foreign keys to existing tables, and those that have to wait."""
    result: list[str] = []
    pending: list[PendingKey] = []
    if Part.FOREIGN_KEYS not in target.parts:
        return result, pending
    dest = target.to(table.name)
    only = "" if table.kind == "p" else "only "
    for one in table.constraints:
        # With the parent's, which is made with all its partitions or is there, they come.
        if one.kind != "f" or one.to_table is None:
            continue
        if one.by_parent and target.attached_to(table):
            continue
        since = releases.of_constraint(table, one)
        if since > target.there.version:
            target.note(
                f"foreign key {one.name} of table {dest} is skipped: {one.definition} needs"
                f" {releases.name(since)}"
            )
            continue
        name = target.of(table, one.name)
        to = target.to(one.to_table)
        definition = replace_table(one.definition, "REFERENCES", one.to_table, to)
        text = (
            f"alter table {only}{dest.quoted} add constraint {quote(name)}"
            f" {definition or one.definition}"
        )
        if target.has(one.to_table):
            result.append(text)
            what = f"constraint {quote(name)} on {dest.quoted}"
            result += target.comment(what, one.comment)
        else:
            pending.append(PendingKey(dest, to, name, text))
            target.note(f"foreign key {name} of table {dest} waits: table {to} does not exist")
    return result, pending


def comments(target: TargetContext, table: Structure) -> list[str]:
    """Comments on the table, its columns, and its constraints but foreign keys."""
    dest = target.to(table.name).quoted
    result = target.comment(f"table {dest}", table.comment)
    for column in table.columns:
        result += target.comment(f"column {dest}.{quote(column.name)}", column.comment)
        if column.not_null_comment and column.not_null_name and target.there.version >= 180000:
            name = quote(target.of(table, column.not_null_name))
            result += target.comment(f"constraint {name} on {dest}", column.not_null_comment)
    for one in table.constraints:
        made = (one.kind == "c" and Part.CHECKS in target.parts) or _made_key(
            target, table, one.name
        )
        known = releases.of_constraint(table, one) <= target.there.version
        if made and one.kind != "f" and known:
            name = quote((target.of_check if one.kind == "c" else target.of)(table, one.name))
            result += target.comment(f"constraint {name} on {dest}", one.comment)
    return result


def rights(target: TargetContext, table: Structure) -> list[str]:
    """Owner and grants; missing roles are noted."""
    dest = target.to(table.name)
    result = []
    if Part.OWNER in target.parts:
        why = target.owner_problem(table.owner, dest.schema)
        if why:
            target.note(f"table {dest} is owned by you: its owner, role {table.owner}, {why}")
        else:
            result.append(f"alter table {dest.quoted} owner to {quote(table.owner)}")
        # Those of columns go with their table.
        for one in table.sequences:
            name = target.sequences[one.name]
            made = not one.owned and one in target.made_sequences
            if made and not target.owner_problem(one.owner, name.schema):
                result.append(f"alter sequence {name.quoted} owner to {quote(one.owner)}")
    if Part.GRANTS not in target.parts:
        return result
    for sequence, group in groupby(table.grants, key=lambda g: g.sequence):
        if sequence is None:
            result += target.granted(dest.quoted, group)
        elif sequence in target.sequences and Part.SEQUENCES in target.parts:
            result += target.granted(f"sequence {target.sequences[sequence].quoted}", group)
    return result


def _index(target: TargetContext, table: Structure, index: Index) -> TableName:
    return TableName(target.to(table.name).schema, target.names[table.name, index.name])


def _comes_with_parent(target: TargetContext, index: Index) -> bool:
    """Whether ATTACH PARTITION creates it: the parent exists and is not being created."""
    return (
        index.parent_table is not None
        and index.parent_table not in target.made
        and Part.PARENTS in target.parts
        and target.has(index.parent_table)
    )


def _index_after(target: TargetContext, table: Structure, index: Index) -> list[str]:
    dest, where = target.to(table.name), _index(target, table, index)
    result = target.comment(f"index {where.quoted}", index.comment)
    if Part.OPTIONS in target.parts:
        if index.clustered:
            result.append(f"alter table only {dest.quoted} cluster on {quote(where.name)}")
        if index.replica_identity:
            result.append(
                f"alter table only {dest.quoted} replica identity using index {quote(where.name)}"
            )
        if index.tablespace:
            target.note(
                f"index {where.name} is created in the default tablespace, not in"
                f" {index.tablespace}"
            )
    return result


def _made_key(target: TargetContext, table: Structure, name: str) -> bool:
    one = next((c for c in table.constraints if c.name == name), None)
    if one is None or releases.of_constraint(table, one) > target.there.version:
        return False
    return one.kind == "p" or (one.kind in {"u", "x"} and Part.UNIQUE in target.parts)


def _no_key(target: TargetContext, table: Structure, one: Constraint) -> None:
    dest = target.to(table.name)
    release = releases.name(releases.of_constraint(table, one))
    if one.kind == "p":
        raise UsageError(
            f"table {dest} cannot be created: its primary key is WITHOUT OVERLAPS",
            detail=f"that needs {release}; nothing was created",
            hint="create the table manually, with an ordinary primary key of the same columns",
        )
    target.note(
        f"constraint {one.name} of table {dest} is skipped: {one.definition} needs {release}"
    )


def _from_other(target: TargetContext, text: str) -> str:
    for old, new in target.renamed.items():
        if old != new:
            text = replace_table(text, "FROM", old, new) or text
    return text


def _enable(dest: TableName, one: Trigger, name: str) -> list[str]:
    if one.enabled == "O":
        return []
    return [f"alter table {dest.quoted} {_ENABLE[one.enabled]} trigger {quote(name)}"]


def _beside(target: TargetContext, text: str, dest: TableName) -> TableName | None:
    """``elsewhere``, but the table's own new name is allowed."""
    return target.elsewhere(text.replace(dest.quoted, "", 1))


def _policy(target: TargetContext, table: Structure, dest: TableName, one: RowPolicy) -> list[str]:
    name = quote(target.of(table, one.name))
    other = target.elsewhere(f"{one.using} {one.check}")
    roles = [role for role in one.roles if role in (target.there.roles or {})]
    for role in one.roles:
        if role not in roles:
            target.note(f"policy {one.name} of table {dest} skips role {role}: it does not exist")
    if other is not None or (one.roles and not roles):
        why = f"it names {other}" if other is not None else "none of its roles exists"
        target.note(f"policy {one.name} of table {dest} is skipped: {why}; create it manually")
        return []
    parts = [f"create policy {name} on {dest.quoted}"]
    if not one.permissive:
        parts.append("as restrictive")
    parts.append(f"for {_COMMANDS[one.command]}")
    parts.append(f"to {', '.join(map(quote, roles)) or 'public'}")
    if one.using is not None:
        parts.append(f"using ({one.using})")
    if one.check is not None:
        parts.append(f"with check ({one.check})")
    return [
        " ".join(parts),
        *target.comment(f"policy {name} on {dest.quoted}", one.comment),
    ]
