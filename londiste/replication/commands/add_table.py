"""``add-table``: checks everything first, then adds each table in one transaction.

On the root a table gets its capture trigger and becomes part of the queue.  Elsewhere the node
first registers what the provider has; then the table is created if requested, registered, and the
worker starts its copy.

Creating a trigger locks the table against writers for a moment; see ``lock_retry``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from londiste.cascade import original
from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db import catalog
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName
from londiste.db.structure.types import Part
from londiste.errors import BadOption, StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.plan import CommandPlan
from londiste.orchestration.steps import Step
from londiste.replication import renamed_tables, replicated_rows
from londiste.replication import sqlapi as tables
from londiste.replication.commands import (
    add_table_options,
    column_checks,
    create_table,
    existing_rows,
    filter_checks,
    merged_tables,
    registry_sync,
    root_trigger,
)
from londiste.replication.commands.add_table_checks import (
    Looks,
    check_table,
    ignores_nothing,
    look,
    pick,
    require_not_null,
    require_one_of_tree,
    require_owner,
    require_there,
    require_whole,
)
from londiste.replication.commands.add_table_step import AddTable, step_of
from londiste.replication.forwarding import combined_queue
from londiste.replication.model import (
    MERGE_ALL,
    ReplicatedTable,
    TableOptions,
)
from londiste.replication.patterns import Pattern, parsed
from londiste.replication.registration_filter import ALL as EVERYTHING
from londiste.replication.registration_filter import RegistrationFilter
from londiste.replication.tablesync import copy_source
from londiste.replication.tablesync.copy_source import CopySource


def plan(
    sites: Connections,
    dsn: str,
    queue: str,
    patterns: Sequence[Pattern],
    options: TableOptions,
    *,
    every: bool = False,
    force: bool = False,
    ignore_old_workers: bool = False,
    skip_non_existing: bool = False,
    wanted: RegistrationFilter = EVERYTHING,
) -> CommandPlan:
    """Plans adding tables to the node at ``dsn``.  Changes nothing.

    patterns -- names, or patterns with * and ?; a name without a dot is in schema public.
    every -- all tables that could be added, instead of patterns.
    force -- add tables that the provider does not have, or that are in no list.
    ignore_old_workers -- capture natively even if a worker of Londiste 3 may be left.
    skip_non_existing -- a table missing on either node is skipped, with a line in ``skipped``.
    wanted -- what the node registers.

    Raises UnknownTable, UsageError (no key, bad flags), StateError.
    """
    add_table_options.check(options)
    wants = options.wants
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    filter_checks.refuse(node, wants)
    if options.merge and node.type is not NodeType.LEAF:
        raise BadOption(
            f"node {node.name} is a {node.type.value}: only leaves can be filled from several"
            " queues",
            hint="omit --merge-all and --no-merge",
        )
    if node.combined_queue is not None:
        options = add_table_options.of_part(node, options)
        wants = options.wants
    if node.type is NodeType.ROOT:
        if options.copy_node:
            raise BadOption(
                "--copy-node and --find-copy-node: not available on the root",
                hint="the root copies nothing; use them on its subscribers",
            )
        options, notes = root_trigger.choose(
            sites, local, node.queue, options, force=ignore_old_workers
        )
        on_root = _on_root(sites, dsn, node, patterns, options, every, force, skip_non_existing)
        return replace(on_root, notes=(*notes, *on_root.notes))
    return _below(sites, dsn, node, patterns, options, every, force, skip_non_existing, wanted)


def _on_root(
    sites: Connections,
    dsn: str,
    node: NodeInfo,
    patterns: Sequence[Pattern],
    options: TableOptions,
    every: bool,
    force: bool,
    skip: bool,
) -> CommandPlan:
    local = sites.at(dsn)
    ours = [t for t in tables.get_table_list(local, node.queue) if t.local]
    done = [t.name for t in ours]
    missing = [
        TableName.parse(m.name)
        for m in tables.local_show_missing(local, node.queue)
        if m.kind == "r"
    ]
    named = [parsed(pattern) for pattern in patterns]
    if options.dest is None:
        named = [name for name in named if _in_tree(local, name)]
    candidates = [*missing, *(name for name in named if name not in {*missing, *done})]
    picked = pick(patterns, candidates, done, every, force or skip, local, on_root=True)
    add_table_options.one_with_dest(picked, options)
    steps: list[Step] = []
    skipped: list[str] = []
    notes: list[str] = []
    virtual = _virtual(options, root=True)
    if not virtual:
        chosen = [options.dest or table for table in picked.chosen]
        require_one_of_tree(local, chosen, [t.dest for t in ours])
        renamed_tables.require_current_name(local, node.queue, chosen)
    facts = look(local, [options.dest or table for table in picked.chosen])
    known = {s.name for s in tables.get_seq_list(local, node.queue) if s.local}
    captures = not virtual and options.triggers
    filled = replicated_rows.filled(local, node.queue) if captures else frozenset()
    subscribed = replicated_rows.subscribed(local) if captures else {}
    for table in picked.chosen:
        dest = options.dest or table
        if skip and not virtual and dest not in facts:
            skipped.append(f"table {dest} does not exist in {describe_dsn(dsn)}")
            continue
        keyless = not virtual and check_table(local, dest, facts.get(dest), options)
        require_not_null(facts.get(dest), options)
        notes += ignores_nothing(facts.get(dest), options)
        step = step_of(node, dsn, table, options, keyless=keyless)
        add_table_options.check_whole_row(table, step.words)
        if "whole_row" in step.words:
            rows = catalog.require(local, dest).rows_estimate
            notes += add_table_options.large_whole_row(table, step.words, rows)
        if str(dest) in filled:
            always, said = replicated_rows.decide(sites, local, node.queue, table, dest)
            step = replace(step, always=always)
            notes += said
        if dest in subscribed:
            notes.append(replicated_rows.native_note(table, subscribed[dest]))
        if step.with_sequences and dest in facts:
            wanted = tuple(name for name in facts[dest].sequences if name not in known)
            known |= set(wanted)
            step = replace(step, sequences=wanted)
        steps.append(step)
    return CommandPlan(tuple(steps), picked.already, tuple(skipped), tuple(notes))


def _below(
    sites: Connections,
    dsn: str,
    node: NodeInfo,
    patterns: Sequence[Pattern],
    options: TableOptions,
    every: bool,
    force: bool,
    skip: bool,
    wanted: RegistrationFilter,
) -> CommandPlan:
    local = sites.at(dsn)
    provider_dsn = sites.reach(node.provider_location, node.provider)
    provider = sites.at(provider_dsn)
    original.require_adopted(provider, node.provider)
    wants, virtual = options.wants, _virtual(options, root=False)
    theirs = {
        t.name: t for t in tables.get_table_list(provider, node.queue) if wanted.table(t.name)
    }
    ours = {t.name: t for t in tables.get_table_list(local, node.queue)}
    done = [name for name, table in ours.items() if table.local]
    candidates = [name for name in theirs if name not in done]
    lacking: list[TableName] = []
    if every and not force and not options.expect_sync and not options.copy_node:
        lacking = [name for name in candidates if not theirs[name].local]
        candidates = [name for name in candidates if theirs[name].local]
    picked = pick(patterns, candidates, done, every, force, provider, on_root=False)
    add_table_options.one_with_dest(picked, options)

    steps: list[Step] = [
        registry_sync.CopyRegistry(node.name, node.provider, provider_dsn, dsn, node.queue, wanted)
    ]
    skipped: list[str] = []
    parts = create_table.parts(options)
    made: dict[str, list[tuple[TableName, AddTable]]] = {}
    notes: list[str] = []
    if lacking:
        why = registry_sync.not_kept(node, lacking)
        skipped.append(why.message)
        notes.append(why.hint)
    if not virtual:
        chosen = [options.dest or table for table in picked.chosen]
        require_one_of_tree(local, chosen, [t.dest for t in ours.values() if t.local])
    looks = Looks(sites.at)
    looks.ask(dsn, [options.dest or table for table in picked.chosen])
    if options.create or options.create_full:
        require_there(looks, node, dsn, [ours[name] for name in picked.already])
    if not options.copy_node:
        looks.ask(provider_dsn, [theirs[t].dest for t in picked.chosen if t in theirs])
    seqs = {s.name for s in tables.get_seq_list(provider, node.queue)}
    seqs -= {s.name for s in tables.get_seq_list(local, node.queue) if s.local}
    registry_sync.require_heard(provider, node, picked.chosen)
    writes = wants.stored and wants.events is None
    captured = replicated_rows.captured(local, node.queue) if writes else frozenset()
    for table in picked.chosen:
        theirs_now = theirs.get(table)
        if not options.expect_sync and not virtual:
            registry_sync.require_not_combined(local, node, table)
        try:
            there = _source(sites, node, provider_dsn, table, theirs_now, options)
        except StateError as error:
            if not every:
                raise
            skipped.append(error.message)
            continue
        origin = sites.at(there.dsn)
        if options.copy_node:
            theirs_now = tables.get_table(origin, node.queue, table)
        elif not force and not options.expect_sync and wants.stored:
            registry_sync.require_kept(provider, node, table, theirs_now, wants)
        dest = options.dest or table
        create = False
        here = looks.of(dsn, dest)
        if virtual:
            keyless = False
        elif here is None and (options.create or options.create_full):
            create = True
            if skip and looks.of(there.dsn, there.table) is None:
                skipped.append(f"table {there.table} does not exist on node {there.node}")
                continue
            facts = looks.of(there.dsn, there.table)
            keyless = check_table(origin, there.table, facts, options, theirs_now)
        elif here is None and skip:
            skipped.append(f"table {dest} does not exist in {describe_dsn(dsn)}")
            continue
        else:
            keyless = check_table(local, dest, here, options, theirs_now)
            require_owner(local, here)
            if wants.stored and wants.events is None:
                notes += column_checks.look(sites.at(there.dsn), there, local, dest, wants)
        if not wants.whole and wants.stored:
            filter_checks.check(
                sites, node.queue, there.dsn, there.table, local, dest, table, wants, create
            )
        if wants.events is not None:
            wants.events.check(local, node.queue, dest)
        filter_checks.refuse_shared(
            sites,
            node,
            dsn,
            table,
            dest,
            wants,
            merged=options.merge == MERGE_ALL,
            confirmed=options.unique_keys,
        )
        filter_checks.refuse_rows_below(
            sites, dsn, node, table, wants, "that node would keep rows that the branch excludes"
        )
        others = combined_queue.other_queues(local, node.queue, table, dest)
        if wants.stored and (others or options.merge == MERGE_ALL):
            if create:
                merged_tables.refuse_deferrable(origin, node.queue, there.table, dest, created=True)
            elif here is not None:
                merged_tables.refuse_deferrable(local, node.queue, dest, dest, created=False)
        if str(dest) in captured:
            notes += replicated_rows.below(sites, local, node.queue, table, dest)
        whole_row = theirs_now is not None and "whole_row" in theirs_now.attrs
        opts = replace(options, whole_row=True) if whole_row else options
        step = step_of(node, dsn, table, opts, keyless=keyless, created=create)
        if step.copied:
            merged_tables.refuse_filled(node, table, dest, options, others)
            merged_tables.refuse_unnamed_sources(local, node, table, dest, options)
            merged_tables.require_positions(local, node, dest, every=options.merge == MERGE_ALL)
        if step.with_sequences:
            mine = looks.of(there.dsn, there.table) if create else here
            names = () if mine is None else mine.sequences
            step = replace(step, sequences=tuple(name for name in names if name in seqs))
            seqs -= set(step.sequences)
        if create:
            made.setdefault(there.dsn, []).append((there.table, step))
        else:
            steps.append(step)
    notes += filter_checks.incomplete(sites, node, [(name, wants) for name in picked.chosen])
    adding = [one for one in steps if isinstance(one, AddTable)]
    notes += [*existing_rows.replaced(local, adding), *existing_rows.beside(local, adding)]
    for place_of, these in made.items():
        create_step, said = _create(sites, node, dsn, place_of, these, ours, parts, options)
        steps.insert(1, create_step)
        notes += said
    if len(steps) == 1:
        steps = []
    return CommandPlan(tuple(steps), picked.already, tuple(skipped), tuple(notes))


def _create(
    sites: Connections,
    node: NodeInfo,
    dsn: str,
    source_dsn: str,
    made: Sequence[tuple[TableName, AddTable]],
    ours: Mapping[TableName, ReplicatedTable],
    parts: frozenset[Part],
    options: TableOptions,
) -> tuple[Step, tuple[str, ...]]:
    """The step that creates tables on one node and adds them; notes on differences."""
    origin = sites.at(source_dsn)
    dests = {source: step.dest for source, step in made}
    theirs = {t.name: t for t in tables.get_table_list(origin, node.queue)}
    while True:
        ddl = create_table.ddl(
            origin,
            sites.at(dsn),
            dests,
            parts,
            create_table.known_names(theirs, ours),
            needs=options.create_needs,
            allow_code=options.allow_code,
        )
        # What was read may lack what a copy had dropped: it began or ended meanwhile.
        require_whole(origin, list(dests))
        before, theirs = theirs, {t.name: t for t in tables.get_table_list(origin, node.queue)}
        if _states(before, dests) == _states(theirs, dests):
            break
    adds = tuple(step for _, step in made)
    step = create_table.CreateTables(
        node.name,
        dsn,
        ddl.statements,
        ddl.pending,
        tuple(dests.values()),
        adds,
        ddl.objects,
        options.allow_code,
        ddl.parents,
        ddl.tables,
    )
    return step, ddl.notes


def _states(
    known: Mapping[TableName, ReplicatedTable], dests: Collection[TableName]
) -> dict[TableName, str | None]:
    return {name: table.state for name, table in known.items() if table.dest in dests}


def additions(steps: Sequence[Step]) -> list[AddTable]:
    """The steps of a plan that add tables, also those that create them."""
    found: list[AddTable] = []
    for step in steps:
        if isinstance(step, create_table.CreateTables):
            found += [one for one in step.adds if isinstance(one, AddTable)]
        elif isinstance(step, AddTable):
            found.append(step)
    return found


def _source(
    sites: Connections,
    node: NodeInfo,
    provider_dsn: str,
    table: TableName,
    theirs: ReplicatedTable | None,
    options: TableOptions,
) -> CopySource:
    """The node that provides the rows, and the structure of a missing table."""
    if options.copy_node:
        start = node.provider_location
        return copy_source.find(sites.at, sites.reach, start, node.queue, table, options.copy_node)
    return CopySource(node.provider, provider_dsn, theirs.dest if theirs else table)


def _in_tree(conn: Connection, table: TableName) -> bool:
    """Whether a table is partitioned, or a partition: one of them is listed, both can be named."""
    info = catalog.info(conn, table)
    return info is not None and (info.tree or info.partition)


def _virtual(options: TableOptions, *, root: bool) -> bool:
    """Whether the table may be missing."""
    return "virtual_table" in options.words(root=root)
