"""Adding tables: everything is looked at first, then each table is added in one transaction.

On the root a table gets its capture trigger and becomes part of the queue.  Elsewhere the node
first learns what the provider knows; then the table is made if asked for, registered, and left
to the worker, which starts its copy.

Making a trigger locks the table against writers for a moment; ``locking`` says how.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg

from londiste.cascade import nodes
from londiste.cascade.plan import Sites, Step
from londiste.cascade.types import NodeInfo, NodeType
from londiste.db import catalog
from londiste.db.connection import Connection, place
from londiste.db.names import TableName
from londiste.errors import (
    BadOption,
    StateError,
    UnknownTable,
    UsageError,
    from_database,
)
from londiste.handlers import condition
from londiste.handlers.base import ALL, Wants
from londiste.replication import create_table, registry, shaping, tables
from londiste.replication.locking import with_table
from londiste.replication.select import Selected, select
from londiste.replication.types import (
    TRIGGERS,
    ReplicatedTable,
    TableOptions,
    decode_attrs,
    encode_attrs,
    with_copy_mode,
)

log = logging.getLogger(__name__)

_LETTERS = frozenset("BACQLJIUDS")


@dataclass(frozen=True)
class Plan:
    """steps -- what to do; already -- named and added before; skipped -- left out, and why."""

    steps: tuple[Step, ...]
    already: tuple[TableName, ...] = ()
    skipped: tuple[str, ...] = ()


def plan(
    sites: Sites,
    dsn: str,
    queue: str,
    patterns: Sequence[str],
    options: TableOptions,
    *,
    every: bool = False,
    force: bool = False,
    skip_non_existing: bool = False,
) -> Plan:
    """What to do to add tables to the node at ``dsn``.  Changes nothing.

    patterns -- names, or patterns with * and ?; a name without a dot is in schema public.
    every -- all tables that could be added, in place of patterns.
    force -- add tables that the provider does not have, or that are in no list.
    skip_non_existing -- a table missing here or there is skipped, with a line in ``skipped``.

    Raises UnknownTable, UsageError (no key, bad flags), StateError.
    """
    _check(options)
    wants = options.wants
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    shaping.refuse(node, wants)
    if node.type is NodeType.ROOT:
        return _on_root(sites, dsn, node, patterns, options, every, force, skip_non_existing)
    return _below(sites, dsn, node, patterns, options, every, force, skip_non_existing)


def _on_root(
    sites: Sites,
    dsn: str,
    node: NodeInfo,
    patterns: Sequence[str],
    options: TableOptions,
    every: bool,
    force: bool,
    skip: bool,
) -> Plan:
    local = sites.at(dsn)
    done = [t.name for t in tables.get_table_list(local, node.queue) if t.local]
    missing = [
        TableName.parse(m.name)
        for m in tables.local_show_missing(local, node.queue)
        if m.kind == "r"
    ]
    candidates = missing if options.dest is None else [*missing, *map(TableName.parse, patterns)]
    picked = _pick(patterns, candidates, done, every, force or skip, local, on_root=True)
    _one_with_dest(picked, options)
    steps: list[Step] = []
    skipped: list[str] = []
    for table in picked.chosen:
        dest = options.dest or table
        if skip and not _virtual(options, root=True) and catalog.info(local, dest) is None:
            skipped.append(f"table {dest} does not exist in {place(dsn)}")
            continue
        keyless = not _virtual(options, root=True) and _check_table(local, dest, options)
        steps.append(_step(node, dsn, table, options, keyless=keyless))
    return Plan(tuple(steps), picked.already, tuple(skipped))


def _below(
    sites: Sites,
    dsn: str,
    node: NodeInfo,
    patterns: Sequence[str],
    options: TableOptions,
    every: bool,
    force: bool,
    skip: bool,
) -> Plan:
    local = sites.at(dsn)
    provider_dsn = sites.reach(node.provider_location)
    provider = sites.at(provider_dsn)
    wants, virtual = options.wants, _virtual(options, root=False)
    theirs = {t.name: t for t in tables.get_table_list(provider, node.queue)}
    ours = {t.name: t for t in tables.get_table_list(local, node.queue)}
    done = [name for name, table in ours.items() if table.local]
    candidates = [name for name in theirs if name not in done]
    if every and not force and not options.expect_sync:
        candidates = [name for name in candidates if theirs[name].local]
    picked = _pick(patterns, candidates, done, every, force, provider, on_root=False)
    _one_with_dest(picked, options)

    steps: list[Step] = [
        registry.CopyRegistry(node.name, node.provider, provider_dsn, dsn, node.queue)
    ]
    skipped: list[str] = []
    for table in picked.chosen:
        theirs_now = theirs.get(table)
        if not force and not options.expect_sync and wants.stored:
            _check_provider(table, theirs_now, node)
        dest = options.dest or table
        ddl: list[str] = []
        source = theirs_now.dest if theirs_now else table
        missing_here = catalog.info(local, dest) is None
        if virtual:
            keyless = False
        elif missing_here and options.create:
            if skip and catalog.info(provider, source) is None:
                skipped.append(f"table {source} does not exist on node {node.provider}")
                continue
            ddl = create_table.statements(
                provider, source, dest, target_version=local.info.server_version
            )
            keyless = _check_table(provider, source, options, theirs_now)
        elif missing_here and skip:
            skipped.append(f"table {dest} does not exist in {place(dsn)}")
            continue
        else:
            keyless = _check_table(local, dest, options, theirs_now)
        if not wants.whole and wants.stored:
            shaping.check(sites, node.queue, provider_dsn, source, local, dest, table, wants, ddl)
        steps.append(_step(node, dsn, table, options, keyless=keyless, ddl=tuple(ddl)))
    if len(steps) == 1:
        steps = []
    return Plan(tuple(steps), picked.already, tuple(skipped))


def _pick(
    patterns: Sequence[str],
    candidates: Sequence[TableName],
    done: Sequence[TableName],
    every: bool,
    force: bool,
    conn: Connection,
    *,
    on_root: bool,
) -> Selected:
    if every:
        if patterns:
            raise BadOption("--all and names of tables", hint="give one or the other")
        return Selected(tuple(candidates))
    if not patterns:
        raise BadOption("no table given", hint="name tables, or use --all")

    def unknown(text: str) -> UnknownTable:
        info = None if "*" in text or "?" in text else catalog.info(conn, TableName.parse(text))
        if info is not None:
            return _not_plain(TableName.parse(text), info.kind) or (
                UnknownTable(
                    f"table {text} cannot be replicated",
                    detail="unlogged and temporary tables and those of PostgreSQL and of"
                    " replication itself are left out; nothing was added",
                    hint="londiste missing lists the tables that can be added",
                )
                if on_root
                else UnknownTable(
                    f"table {text} is not part of the queue",
                    detail="nothing was added",
                    hint=f"add it on the root first: londiste add-table {text}",
                )
            )
        return UnknownTable(
            f"no table {text} in {place(conn.info.dsn)}",
            detail="nothing was added",
            hint=_name_hint(text) or "londiste missing lists the tables that can be added",
        )

    return select(patterns, candidates, done, unknown, force=force)


def _name_hint(text: str) -> str:
    """What may be wrong with a name that means nothing."""
    if '"' in text:
        return "write names as they are, without double quotes"
    if text.count(".") > 1:
        return (
            "the first dot ends the schema's name; a schema with a dot in its name cannot be"
            " replicated before it is renamed"
        )
    return ""


def _virtual(options: TableOptions, *, root: bool) -> bool:
    """Whether the table need not be there."""
    return "virtual_table" in options.words(root=root)


def _one_with_dest(picked: Selected, options: TableOptions) -> None:
    if options.dest is not None and len(picked.chosen) > 1:
        raise BadOption(
            f"--dest-table with {len(picked.chosen)} tables",
            hint="add tables with another name one by one",
        )


def _check(options: TableOptions) -> None:
    wrong = sorted(set(options.trigger_flags.upper()) - _LETTERS)
    if wrong:
        raise BadOption(
            f"--trigger-flags {options.trigger_flags}: no flag {wrong[0]}",
            hint="letters: B before, A after, C own capture, Q sqltriga, L logutriga, J jsontriga,"
            " I insert, U update, D delete, S skip",
        )
    if options.trigger and TRIGGERS.get(options.trigger) is None:
        raise BadOption(
            f"--trigger {options.trigger}: no such trigger",
            hint=f"write one of {', '.join(TRIGGERS)}",
        )
    if options.choice.columns and options.choice.skip_columns:
        raise BadOption(
            "--columns and --skip-columns", hint="give one: those to keep, or those to leave out"
        )
    chosen = sorted(set(options.trigger_flags.upper()) & set(TRIGGERS.values()))
    letter = TRIGGERS.get(options.trigger, "")
    if letter and any(other != letter for other in chosen):
        raise BadOption(
            f"--trigger {options.trigger} and --trigger-flags {options.trigger_flags}",
            detail=f"the letter {next(c for c in chosen if c != letter)} names another trigger",
            hint="leave one of the two out; C Q L J in --trigger-flags are the same choice",
        )
    if options.form:
        _check_form(options, letter or "".join(chosen[:1]))
    if letter == "C" and set(options.trigger_flags.upper()) & {"B", "S"}:
        raise BadOption(
            f"--trigger capture and --trigger-flags {options.trigger_flags}",
            detail="our own capture neither fires before a change nor skips it",
            hint="choose a compatible trigger for that: --trigger jsontriga",
        )


def _check_form(options: TableOptions, letter: str) -> None:
    """Refuses a form for anything but our own capture, and two forms."""
    if letter not in {"", "C"} or set(options.trigger_flags.upper()) & {"B", "S"}:
        raise BadOption(
            f"--form {options.form} with a compatible trigger",
            detail="row and statement are forms of our own capture",
            hint="leave --form out, or choose --trigger capture",
        )
    given = [arg for arg in options.trigger_args if arg.startswith("form=")]
    if given:
        raise BadOption(
            f"--form {options.form} and --trigger-arg {given[0]}",
            hint="leave one of the two out",
        )


def _check_provider(table: TableName, theirs: ReplicatedTable | None, node: NodeInfo) -> None:
    if theirs is None or not theirs.local:
        raise StateError(
            f"node {node.provider} does not have table {table}",
            detail=f"it is the provider of {node.name}, from which the rows would be copied",
            hint=f"on {node.provider}: londiste add-table {table}; or with rows that are here"
            " already: --expect-sync",
        )
    if not theirs.wants.stored:
        raise StateError(
            f"node {node.provider} keeps no rows of table {table}",
            detail=f"its handler there is {theirs.attrs.get('handler')}; it is the provider of"
            f" {node.name}, from which the rows would be copied",
            hint="add it with rows that are here already: --expect-sync",
        )


def _check_table(
    conn: Connection,
    table: TableName,
    options: TableOptions,
    theirs: ReplicatedTable | None = None,
) -> bool:
    """Refuses what cannot be added; True for a table without key that may be."""
    info = catalog.info(conn, table)
    if info is None:
        raise UnknownTable(
            f"table {table} does not exist in {place(conn.info.dsn)}",
            detail="nothing was added",
            hint="create it first, or let it be made after the provider's: --create",
        )
    problem = _not_plain(table, info.kind)
    if problem is not None:
        raise problem
    if not catalog.columns(conn, table):
        raise UsageError(
            f"table {table} has no columns",
            detail="nothing was added",
            hint="there is nothing in it to replicate; add a column first",
        )
    if catalog.key(conn, table) or any(a.startswith("pkey=") for a in options.trigger_args):
        return False
    # What the provider admits can also be stored here.
    if options.insert_only or (theirs is not None and "insert_only" in theirs.attrs):
        return True
    raise UsageError(
        f"table {table} has no primary key",
        detail="without one an UPDATE or DELETE cannot be carried to other nodes",
        hint="add a primary key; or name columns that identify a row: --trigger-arg pkey=a,b;"
        " or, if rows are only ever inserted: --insert-only",
    )


def _not_plain(table: TableName, kind: str) -> UnknownTable | None:
    words = {"p": "a partitioned table", "v": "a view", "m": "a materialized view"}
    words["f"] = "a foreign table"
    if kind == "r":
        return None
    return UnknownTable(
        f"{table} is {words.get(kind, 'no table')}",
        detail="only plain tables are replicated",
        hint="add its partitions instead" if kind == "p" else "add the tables it reads from",
    )


def _step(
    node: NodeInfo,
    dsn: str,
    table: TableName,
    options: TableOptions,
    *,
    keyless: bool,
    ddl: tuple[str, ...] = (),
) -> AddTable:
    words = options.words(root=node.type is NodeType.ROOT)
    words = [w for w in words if w != "insert_only" or keyless]
    if keyless and "insert_only" not in words:
        words.append("insert_only")
    # With the rows all there, or none wanted, no copy follows.
    copied = node.type is not NodeType.ROOT and not {"expect_sync", "virtual_table"} & set(words)
    chosen = options.choice.attrs()
    attrs = encode_attrs(with_copy_mode(chosen, options.copy_mode) if copied else chosen)
    return AddTable(
        node.name,
        dsn,
        node.queue,
        table,
        options.dest or table,
        tuple(words),
        ddl,
        copied,
        attrs,
        options.wants,
    )


@dataclass(frozen=True)
class AddTable:
    """One table becomes replicated on one node."""

    node: str
    dsn: str = field(repr=False)
    queue: str
    table: TableName
    dest: TableName
    words: tuple[str, ...]
    ddl: tuple[str, ...]
    copied: bool
    attrs: str | None = None
    wants: Wants = ALL

    def describe(self) -> str:
        text = f"{self.node}: "
        if self.ddl:
            text += f"create table {self.dest} and "
        text += f"add table {self.table}"
        if self.dest != self.table:
            text += f" as {self.dest}"
        if self.words:
            text += f" ({', '.join(self.words)})"
        if self.attrs:
            text += f" ({', '.join(f'{k}={v}' for k, v in decode_attrs(self.attrs).items())})"
        return text + (", to be copied" if self.copied else "")

    def done(self, sites: Sites) -> bool:
        known = tables.get_table(sites.at(self.dsn), self.queue, self.table)
        return known is not None and known.local

    def run(self, sites: Sites) -> None:
        """Raises LockTimeout when the table stays locked for ``sites.lock_timeout`` seconds."""
        with_table(sites, self.dsn, self.dest, self.node, self._add)

    def _add(self, conn: Connection) -> None:
        self._create(conn)
        if self.ddl:
            condition.check(conn, self.dest, self.wants)
        tables.local_add_table(
            conn,
            self.queue,
            self.table,
            self.words,
            self.attrs,
            None if self.dest == self.table else self.dest,
        )

    def _create(self, conn: Connection) -> None:
        try:
            for statement in self.ddl:
                # Text of the catalog of another node, where identifiers are quoted already.
                conn.execute(statement.encode())
        except (psycopg.errors.UndefinedObject, psycopg.errors.UndefinedFunction) as error:
            ours = from_database(error, where=place(self.dsn))
            raise UsageError(
                f"table {self.dest} cannot be created on node {self.node}: {ours.message}",
                detail="a type, collation or function that its columns need is not there",
                hint="create that first, then run the command again",
            ) from error
