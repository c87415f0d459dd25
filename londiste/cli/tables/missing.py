"""``londiste missing``: lists tables and sequences that are not replicated yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.plan_output import sites
from londiste.db.connection import session
from londiste.db.names import TableName, argument
from londiste.db.queries import tuples
from londiste.errors import LondisteError, StateError
from londiste.handlers.base import ALL
from londiste.monitor import verdict
from londiste.monitor.nodes import collect, rules
from londiste.orchestration.lock_retry import locked_tables, with_holders
from londiste.replication import sqlapi as registered
from londiste.replication.commands import registry_sync
from londiste.replication.commands.add_table_checks import LEFT_OUT, Facts, look
from londiste.settings import NodeSettings


class Missing(TypedDict):
    """A table or sequence that is not replicated.

    kind -- table or sequence.
    why -- it cannot be replicated, or only with an option, or is locked; null: it can.
    """

    kind: str
    name: str
    why: str | None


class Difference(TypedDict):
    """With `--all-nodes`: a table that a node and its provider do not both keep."""

    node: str
    what: str
    do: str


MISSING = Rows("missing", Missing)
EVERYWHERE = Rows("differences", Difference)


@click.command()
@options.pass_context
@click.option(
    "--all-nodes", is_flag=True, help="Check all nodes and print the commands to run there."
)
@options.json_output(MISSING, EVERYWHERE)
def missing(context: options.Context, all_nodes: bool, as_json: bool) -> int:
    """List tables and sequences of this node that are not replicated yet.

    On the root, also lists tables that cannot be replicated, with the reason. With --all-nodes,
    compares each node with its provider and lists tables that only one of the two keeps; the exit
    code is 1 if there are any.
    """
    settings = context.settings(NodeSettings)
    if all_nodes:
        return _missing_everywhere(settings, as_json)
    with session(settings.db, name="londiste missing", autocommit=True) as conn:
        node = nodes.get_node_info(conn, settings.queue_name)
        found = registered.local_show_missing(conn, settings.queue_name)
        on_root = node.type is NodeType.ROOT
        names = [TableName.parse(m.name) for m in found if m.kind == "r" and on_root]
        locked = [one for one in locked_tables(conn) if one.name in names]
        locked = with_holders(conn, locked)
        unread = {one.name for one in locked}
        facts = look(conn, [name for name in names if name not in unread])
        why = {str(name): _refused(one) for name, one in facts.items()}
        why |= {str(one.name): f"not checked: {one.why}" for one in locked}
        if not on_root:
            why = _not_provided(
                settings, node, [TableName.parse(m.name) for m in found if m.kind == "r"]
            )
        rows = [
            Missing(kind=_kind(m.kind), name=str(m.name), why=why.get(str(m.name))) for m in found
        ]
        if on_root:
            local = [t for t in registered.get_table_list(conn, settings.queue_name) if t.local]
            known = {name for t in local for name in (t.name, t.dest)}
            rows += [
                Missing(kind=_kind(kind), name=f"{schema}.{name}", why=LEFT_OUT[reason])
                for kind, schema, name, reason in tuples(conn, "left_out")
                if kind == "S" or "." in schema or TableName(schema, name) not in known
            ]
    output.show(
        MISSING,
        rows,
        json_wanted=as_json,
        empty="every table and sequence is replicated",
    )
    for one in locked:
        unknown = "whether it can be replicated was not checked"
        output.warning(f"table {one.name} is {one.why}: {unknown}; {one.after('londiste missing')}")
    return 0


def _kind(letter: str) -> str:
    return {"r": "table", "S": "sequence"}.get(letter, letter)


def _refused(facts: Facts) -> str | None:
    """Why add-table without options refuses a table of the root."""
    if not facts.has_columns:
        return "has no columns"
    return None if facts.has_key else _KEYLESS


def _not_provided(
    settings: NodeSettings, node: NodeInfo, names: Sequence[TableName]
) -> dict[str, str | None]:
    """Those of the tables whose rows the provider of a node does not have, and why."""
    why: dict[str, str | None] = {}
    if not names:
        return why
    queue = settings.queue_name
    with sites(settings, bounded=True) as where:
        try:
            provider = where.at(where.reach(node.provider_location, node.provider))
            known = {t.name: t for t in registered.get_table_list(provider, queue)}
        except LondisteError as error:
            silent = verdict.unchecked(node.provider, error, queue)
            output.warning(f"{silent.what}: {silent.why}; hint: {silent.do}")
            return why
        for name in names:
            try:
                registry_sync.require_kept(provider, node, name, known.get(name), ALL)
            except StateError as error:
                add = f"londiste add-table {argument(name)} --find-copy-node"
                why[str(name)] = f"{error.message}: {add}"
    return why


_KEYLESS = "has no primary key: londiste add-table NAME --whole-row, or --insert-only"


def _missing_everywhere(settings: NodeSettings, as_json: bool) -> int:
    kinds = {"not-kept", "not-above", "unknown-above", "sequence-not-kept"}
    rows: list[Difference] = []
    with sites(settings) as where:
        every, silent = collect.everywhere(where, settings.db, settings.queue_name)
    by_name = {node.name: node for node, _ in every}
    for node, provider in every:
        if node.type != "root":
            rows += [
                Difference(node=node.name, what=one.what.partition(": ")[2], do=one.do)
                for one in rules.findings(node, by_name.get(provider), settings.queue_name)
                if one.kind in kinds
            ]
    for name, error in silent:
        unchecked = verdict.unchecked(name, error, settings.queue_name)
        output.warning(f"{unchecked.what}: {unchecked.why}; hint: {unchecked.do}")
    output.show(EVERYWHERE, rows, json_wanted=as_json)
    return 1 if rows or silent else 0
