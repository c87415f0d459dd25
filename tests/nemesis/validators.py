"""What has to be true: after each step, and at the end of a life.

Nothing here is computed by the program's own code, but for ``compare``, which has to agree.
"""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg

from londiste.selftest import rows
from londiste.selftest.shapes import MARK
from tests.nemesis.cast import QUEUE, SECRET, TICKS, Cast
from tests.nemesis.watcher import POSITION
from tests.nemesis.writer import ALWAYS
from tests.support.scenarios.forks import Fork
from tests.support.scenarios.processes import tail
from tests.support.waiting import wait_for

#: Seconds in which a node that nothing disturbs any more has to get further.
CONVERGES = 40.0

_TEXT = (
    "set timezone = 'UTC'; set datestyle = 'ISO, YMD'; set intervalstyle = 'postgres';"
    " set extra_float_digits = 1; set bytea_output = 'hex'; set search_path = pg_catalog"
)
_NOT_OK = (
    "select table_name, merge_state from londiste.table_info"
    " where local and merge_state is distinct from 'ok'"
)


# -- commands ------------------------------------------------------------------------------


def output(fork: Fork) -> None:
    """No command prints a secret."""
    for text in (fork.out, fork.err):
        assert SECRET not in text, f"a secret in the output of {fork.argv}"


def refusal(fork: Fork) -> None:
    """A command that fails says why in one line, and what to do; it is no defect of its own."""
    output(fork)
    code = fork.code()
    assert code in {1, 2, 3, 4, 5, 6, 130, 70, 75}, str(fork)
    assert code != 70 and "Traceback" not in fork.err, f"a defect of the program: {fork}"
    if code != 130 and fork.argv[2] != "compare":
        lines = re.sub("\x1b\\[[0-9;]*m", "", fork.err).splitlines()
        assert sum(line.startswith("error: ") for line in lines) == 1, f"no one error: {fork}"


# -- rows ----------------------------------------------------------------------------------


def settle(life: Any, where: str) -> None:
    """Every node gets what the root has, and holds the same rows.  Applications are held."""
    cast, model = life.cast, life.model
    root = model.root
    tick = 0

    def ticked() -> bool:
        """A tick that sees all there is; the ticker may be faster than this session."""
        nonlocal tick
        newest = f"select max(tick_id) from {TICKS} t"
        try:
            before = int(cast.value(root, newest))
            cast.rows(root, "select pgq.force_tick(%s)", QUEUE)
            cast.rows(root, "select pgq.ticker(%s)", QUEUE)
            tick = int(cast.value(root, newest))
        except psycopg.OperationalError:
            return False
        return tick > before

    wait_for(ticked, timeout=CONVERGES, what=f"a tick {where}")
    life.note(f"  tick {tick}")
    for node in model.subscribers():

        def arrived(node: str = node) -> bool:
            life.revive()
            try:
                if (cast.value(node, POSITION) or 0) < tick:
                    return False
                if not cast.value(node, f"select count(*) from ({_NOT_OK}) t"):
                    return True
                # A copy waits for ticks after its beginning.
                cast.rows(root, "select pgq.force_tick(%s)", QUEUE)
                cast.rows(root, "select pgq.ticker(%s)", QUEUE)
            except psycopg.OperationalError:
                pass
            return False

        advancing(cast, node, arrived, f"tick {tick} on {node} {where}")
    same_rows(life, where)


def advancing(cast: Cast, node: str, there: Callable[[], bool], what: str) -> None:
    """Waits as long as a node gets anywhere: a slow machine is no defect, a node that halts is."""
    while True:
        before = _standing(cast, node)
        try:
            wait_for(there, timeout=CONVERGES, what=what)
            return
        except AssertionError as error:
            now = _standing(cast, node)
            if now == before:
                raise AssertionError(f"{error}\n{now}") from None


def _standing(cast: Cast, node: str) -> str:
    try:
        state = cast.rows(node, "select * from pgq_node.local_state")
        return f"{state}\n{cast.rows(node, _NOT_OK)}"
    except psycopg.Error as error:
        return str(error)


def same_rows(life: Any, where: str) -> None:
    """The nodes hold the rows of the root in all tables that they replicate."""
    cast, model = life.cast, life.model
    with cast.connect(model.root) as conn:
        columns = {name: rows.columns(conn, sql) for name, sql in _names(model, model.root).items()}
    full = _digests(cast, model.root, _names(model, model.root), columns)
    for node in model.subscribers():
        names = {n: s for n, s in _names(model, node).items() if n in columns}
        sources = _filtered(model, node)
        wanted = {**full, **_digests(cast, model.root, sources, columns)} if sources else full
        found = _digests(cast, node, names, columns)
        for name in names:
            if (node, name) not in life.aside and found[name] != wanted[name]:
                here = _rows(cast, model.root, sources.get(name, names[name]), columns[name])
                there = _rows(cast, node, names[name], columns[name])
                raise AssertionError(
                    f"{where}: {name} on {node}: missing {list((here - there).elements())[:4]},"
                    f" too many {list((there - here).elements())[:4]}"
                )


def _names(model: Any, node: str) -> dict[str, str]:
    """Tables of a node, as the program and as SQL writes them."""
    found = {name: name for name in ALWAYS}
    for number in sorted(model.replicated[node]):
        table = model.table(number)
        found[table.name] = table.sql
    return found


def _filtered(model: Any, node: str) -> dict[str, str]:
    """Tables with a filter on a node, and the rows that pass it."""
    found = {}
    for number in model.replicated[node]:
        if conditions := model.conditions(node, number):
            table, where = model.table(number), " and ".join(f"({c})" for c in conditions)
            found[table.name] = f"(select * from {table.sql} where {where}) x"
    return found


def _digests(
    cast: Cast, node: str, names: dict[str, str], columns: dict[str, list[str]]
) -> dict[str, rows.Digest]:
    with cast.connect(node) as conn:
        conn.execute(_TEXT)
        found = rows.digests(conn, {sql: columns[name] for name, sql in names.items()})
    return {name: found[sql] for name, sql in names.items()}


def _rows(cast: Cast, node: str, table: str, columns: list[str]) -> Counter[str]:
    with cast.connect(node) as conn:
        conn.execute(_TEXT)
        found = conn.execute(f"select row({', '.join(columns)})::text from {table}".encode())
        return Counter(row for (row,) in found)


def compare_agrees(life: Any) -> None:
    """``compare`` finds no difference where there is none, while applications write."""
    for node in life.model.subscribers()[-1:]:
        fork = life.run(node, "compare", "--json", *life.compared())
        output(fork)
        assert fork.code() == 0, f"compare on {node} does not agree: {fork}"
        assert json.loads(fork.out)["equal"] is True, str(fork)


def halts(life: Any, node: str, number: int) -> None:
    """The worker stops before the event that fails, says so, and the position stays there."""

    def stored() -> Any:
        return life.cast.value(
            node, "select cur_error from pgq_node.local_state where cur_error is not null"
        )

    def came() -> bool:
        life.revive()
        return bool(stored()) or number in life.writer.failed

    wait_for(came, timeout=CONVERGES, what=f"a halt of {node} at notice {number}")
    if number in life.writer.failed:
        # The application could not commit it.
        return
    fork = life.run(node, "status", "--json")
    assert fork.code() == 0 and "nemesis.notice" in fork.out, f"no word of the halt: {fork}"


# -- the end -------------------------------------------------------------------------------

_STRUCTURE = """
select 'index', indexname, regexp_replace(indexdef, '^CREATE', '') from pg_indexes
where schemaname = 'nemesis'
union all
select 'constraint', conrelid::regclass::text || '.' || conname, pg_get_constraintdef(oid)
    || case when convalidated then '' else ' NOT VALID' end
from pg_constraint where connamespace = 'nemesis'::regnamespace
"""


def structure(cast: Cast, node: str) -> set[tuple[Any, ...]]:
    """Indexes and constraints of the tables."""
    return set(cast.rows(node, _STRUCTURE))


LEFT = {
    "a session": "select application_name, state, query from pg_stat_activity"
    " where datname = current_database() and application_name like 'londiste%'",
    "an advisory lock": "select classid, objid from pg_locks l join pg_database d"
    " on d.oid = l.database where locktype = 'advisory' and datname = current_database()",
    "a prepared transaction": "select gid from pg_prepared_xacts"
    " where database = current_database()",
    "a replication slot": "select slot_name from pg_replication_slots",
    "an operation under way": "select operation from pg_catalog.jsonb_each('{}') x(operation, y)",
    "definitions to be restored": "select table_name, dropped_ddl from londiste.table_info"
    " where dropped_ddl is not null",
    "a foreign key that is not restored": "select * from londiste.pending_fkeys",
    # Those are failed on purpose.
    "an event that failed": "select table_name, op, state, message from londiste.apply_error"
    " where state <> 'passed' or table_name <> 'nemesis.notice'",
    "an invalid index": "select indexrelid::regclass from pg_index where not indisvalid",
    "a temporary table": "select relname from pg_class where relpersistence = 't'"
    " and relkind = 'r'",
    "an operation": "select * from pgq_node.operation",
}


def at_the_end(life: Any, before: dict[str, set[tuple[Any, ...]]]) -> None:
    """Nothing is left over; called when no application writes any more."""
    cast: Cast = life.cast
    settle(life, "at the end")
    for watcher in life.watchers:
        watcher.check()
    assert not life.writer.wrong, life.writer.wrong[:3]
    for consumer in life.consumers:
        consumer.check(life.model.root, life.eras[consumer.node])
        consumer.stop()
    _consumers(life)
    for name, fork in cast.daemons().items():
        fork.send(signal.SIGTERM)
        code = fork.wait(30)
        # A crash point that was armed may come now; or it has just begun.
        assert code in (0, -9) or (code == -15 and not fork.err), (
            f"{name} ended with {code} when told to:\n{tail(fork.err)}"
        )
    for node in life.model.world.providers:
        nothing_left(cast, node, LEFT)
    # A subscriber may have become the root, and been lost.
    for node, had in [(n, had) for n, had in before.items() if n in life.model.world.providers]:
        missing = had - structure(cast, node)
        gone_tables = {"ledger"}
        assert not {m for m in missing if m[1] not in gone_tables}, f"lost on {node}: {missing}"
    outputs(cast)


def nothing_left(cast: Cast, node: str, left: dict[str, str]) -> None:
    """None of these statements finds anything, after a moment."""
    for what, statement in left.items():

        def gone(statement: str = statement) -> bool:
            return not cast.rows(node, statement)

        try:
            wait_for(gone, timeout=10, what=f"no {what.partition(' ')[2]} left on {node}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {cast.rows(node, statement)}") from None


def _consumers(life: Any) -> None:
    """Only workers are consumers of the queue: no copy is left, and no forgotten node."""
    workers = {"app", *(f"{n}_worker" for n in life.model.world.providers)}

    def left() -> list[str]:
        return [
            f"{name} on {node}"
            for node in life.model.world.providers
            for (name,) in life.cast.rows(node, "select consumer_name from pgq.get_consumer_info()")
            if name not in workers and "watermark" not in name and "gravestone" not in name
        ]

    try:
        wait_for(lambda: not left(), timeout=20, what="the end of the copies' consumers")
    except AssertionError as error:
        raise AssertionError(f"{error}: {left()}") from None


def outputs(cast: Cast) -> None:
    """No log has a secret, a value of a row, or the traces of a defect."""
    for path in [*cast.directory.glob("fork*.log"), *cast.directory.glob("fork*.out")]:
        text = path.read_text(errors="replace")
        assert SECRET not in text, f"a secret in {path.name}"
        # Ctrl-C while the interpreter loads the program, or ends, is the interpreter's.
        its_own = "KeyboardInterrupt" in text and "/londiste/" not in text
        assert "Traceback" not in text or its_own, f"a traceback in {path.name}:\n{tail(text)}"
        if "_repair" not in path.name and "_compare" not in path.name:
            assert MARK not in text, f"a value of a row in {path.name}"
