"""Doubts about replicated tables and sequences of one node, as findings."""

from __future__ import annotations

from londiste.db.ddl import literal
from londiste.db.names import TableName, argument, quote
from londiste.monitor.queues.model import Severity
from londiste.replication import renamed_tables, replicated_rows
from londiste.replication.commands.add_table_checks import create_again
from londiste.replication.commands.triggers import rows_first
from londiste.replication.lost_rows import DETACHED, REPLACED
from londiste.replication.lost_rows import REWRITTEN as _REWRITTEN

#: By DDL outside of scripts that all nodes run, or without a capture.
REWRITTEN = f"{_REWRITTEN}, compare it"


#: Of a replicated sequence, by the kind of ``sql/queries/sequence_doubts.sql``.
_NO_SEQUENCE = "does not exist, it is replicated and was dropped or renamed"
_TOO_NARROW = "cannot hold the published value"
_BEHIND = "is behind the published value"
SEQUENCE_DOUBTS = {
    "sequence-missing": _NO_SEQUENCE,
    "sequence-range": _TOO_NARROW,
    "sequence-behind": _BEHIND,
}


#: Of a captured table, by the kind of ``sql/queries/silent_captures.sql``.
SILENT = {
    "second-queue": "gets rows by queue {}, which are not captured",
    "native-subscription": "gets rows by subscription {} of PostgreSQL, which are not captured",
}


#: Of a change of a branch that was interrupted.
STALE_BELOW = "was changed, the nodes below have not copied it again"


def doubt(
    kind: str, table: str, detail: str, queue: str, node: str, *, root: bool
) -> tuple[Severity, str, str, str]:
    """Severity, what, why and what to do of a doubt.

    kind, table, detail -- of ``sql/queries/table_doubts.sql``, ``unreplicated_sequences.sql`` or
        ``sequence_doubts.sql``; of a sequence that is not replicated three texts (``collect``).
    node -- its name, where it is not the root.  root -- whether it is.
    """
    match kind:
        case "second-queue" | "native-subscription" if not root:
            what = f"table {table} {SILENT[kind].format(detail)}"
            why = f"this node was the root, and its captures write no events of queue {queue} now:"
            why += " other nodes lack these rows"
            name = argument(table)
            do = f"londiste switchover --to {argument(node)}; then on the nodes below: londiste"
            return Severity.CRITICAL, what, why, f"{do} resync {name}"
        case "missing":
            what = f"table {table} does not exist"
            why = "it is replicated, and was dropped or renamed"
            name = argument(table)
            do = (
                f"londiste remove-table {name}; or create it again, then londiste triggers"
                f" --restore {name}"
                if root
                else create_again(name)
            )
            return Severity.CRITICAL, what, why, do
        case "sequence":
            sequence, statement, as_argument = detail.split("\0")
            what = f"sequence {sequence} of table {table} is not replicated"
            why = "after a takeover it would return values that rows already have"
            first = "" if root else "on the root, then on this node: "
            first += f"{statement}; then " if statement else ""
            return Severity.WARNING, what, why, f"{first}londiste add-seq {argument(as_argument)}"
        case "sequence-missing":
            what = f"sequence {table} {_NO_SEQUENCE}"
            why = (
                "its values are not published: after a takeover nodes would return values that"
                " rows already have"
                if root
                else "it does not follow the root: after a takeover its values would repeat"
            )
            name = argument(table)
            do = (
                f"rename it back; or londiste remove-seq {name}, then londiste add-seq NEW-NAME"
                f"{'' if root else ', on the root first'}"
            )
            return Severity.WARNING, what, why, do
        case "sequence-range":
            what = f"sequence {table} {_TOO_NARROW}: {detail}"
            why = "it stays at its end, and nextval() fails here after a takeover"
            do = (
                f"alter sequence {TableName.parse(table).quoted} as TYPE maxvalue N, as on the root"
            )
            return Severity.WARNING, what, why, do
        case "sequence-behind":
            value = detail.partition(", ")[2].rstrip(")")
            what = f"sequence {table} {_BEHIND} {value}"
            why = (
                "without a takeover, which moves it, it would return values that rows already have"
            )
            quoted = TableName.parse(table).quoted
            statement = f"select setval({literal(quoted)}, {detail}) from {quoted}"  # noqa: S608
            do = f"restart the worker, it moves the sequence; or: {statement}"
            return Severity.WARNING, what, why, do
        case "second-queue":
            what = f"table {table} {SILENT[kind].format(detail)}"
            why = "the capture fires for applications only, so nodes below lack these rows"
            return Severity.CRITICAL, what, why, replicated_rows.remedy(table)
        case "native-subscription":
            what = f"table {table} {SILENT[kind].format(detail)}"
            why = (
                "only a trigger by row that is ENABLE ALWAYS fires for them, so nodes below lack"
                " these rows"
            )
            return Severity.CRITICAL, what, why, replicated_rows.remedy(table)
        case "unlogged":
            what = f"table {table} is unlogged"
            why = "a crash of this server truncates it without an event"
            return (
                Severity.WARNING,
                what,
                why,
                f"alter table {TableName.parse(table).quoted} set logged",
            )
        case "rewritten":
            what = f"table {table} {REWRITTEN}, found {detail}"
            why = (
                "DDL wrote values, a new column lacks those of old rows, or a capture was lost:"
                " other nodes may have other rows"
            )
            accept = renamed_tables.accept(queue, table)
            here = rows_first(argument(table))
            do = (
                f"on each node below: {here}; then here: {accept}"
                if root
                else f"{here}; or {accept}"
            )
            return Severity.WARNING, what, why, do
        case "table-replaced":
            what = f"table {table} {REPLACED}, found {detail}"
            why = "it was created again, or another table got its name: rows of before are missing"
            accept = renamed_tables.accept(queue, table)
            if root:
                do = f"compare it with a node that has its rows; then: {accept}"
            else:
                do = f"{rows_first(argument(table))}; or, if it is equal: {accept}"
            return Severity.CRITICAL, what, why, do
        case "partition-detached":
            what = f"table {table} {DETACHED} {detail}"
            why = "it was detached on this node: its rows are missing, and events of them fail"
            here = rows_first(argument(table))
            accept = renamed_tables.accept(queue, table)
            do = (
                f"attach it again: alter table {TableName.parse(table).quoted} attach partition"
                f" {TableName.parse(detail).quoted} for values …; then {here}; or, if the root has"
                f" detached it, too, drop it, or: {accept}"
            )
            return Severity.CRITICAL, what, why, do
        case "large-objects":
            what = f"column {detail} of table {table} may point to large objects"
            why = "the object ids are replicated, the large objects are not"
            return Severity.WARNING, what, why, "store such values in a bytea column"
        case "always":
            what = f"trigger {detail} of table {table} fires for replicated rows, too (ALWAYS)"
            why = "it fires for each row that the copy and the worker write; its effects happened"
            why += " on the root already, and an error of it stops the worker"
            trigger = quote(detail.partition(" of ")[0])
            alter = f"alter table {TableName.parse(table).quoted} enable trigger {trigger}"
            do = f"{alter}; or, if it is for replicated rows only: enable replica trigger"
            return Severity.WARNING, what, why, do
        case "rule":
            rule, enabled = detail.rsplit("\n", 1)
            word = "ALWAYS" if enabled == "A" else "REPLICA"
            what = f"rule {rule} of table {table} applies to replicated rows, too ({word})"
            why = "it changes what the worker writes: rows are missing, or effects of the root"
            why += " are repeated"
            alter = f"alter table {TableName.parse(table).quoted} enable rule {quote(rule)}"
            do = f"{alter}; or, if nobody is to use it: disable rule"
            return Severity.WARNING, what, why, do
        case "type-owner":
            kind, owner, remedy = detail.rsplit("\n", 2)
            what = f"type {kind} of table {table} belongs to {owner}"
            why = "that role can add code to it, which runs as who writes the table's rows"
            return Severity.WARNING, what, why, remedy
        case "table-owner":
            owner, writer, remedy = detail.split("\n")
            what = f"table {table} belongs to {owner}, and {writer} may not set this role"
            why = "rows are written with the rights of the owner; the first change stops the worker"
            return Severity.CRITICAL, what, why, remedy
        case "partition-names":
            what = (
                f"trigger {detail} of partitioned table {table} names the partitions in its events"
            )
            why = (
                "other nodes do not know them as tables of the queue: their rows are not replicated"
            )
            do = (
                f"londiste triggers --restore {argument(table)}; on the nodes below: londiste"
                f" resync {argument(table)}"
            )
            return Severity.CRITICAL, what, why, do
        case _:
            what = f"table {detail} refers to table {table} and is not replicated"
            why = "its rows may refer to rows deleted elsewhere, or block deletes on this node"
            return Severity.WARNING, what, why, f"londiste add-table {argument(detail)}"
