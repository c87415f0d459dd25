"""Session of the queue shell: connection, current queue, and execution of statements.

Autocommit, unless the user has typed BEGIN: queue commands then take part in that transaction.
Multi-node commands (``londiste …``, ``install``) must run outside a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import conninfo

from londiste.cascade import sqlapi as nodes
from londiste.db.connection import Connection, connect, describe_dsn, use_own_names, whereabouts
from londiste.db.queries import tuples
from londiste.errors import (
    BadOption,
    LondisteError,
    StateError,
    UnknownNode,
    from_database,
)
from londiste.install import apply, source
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.pgq import admin, config, queues
from londiste.replication.commands import add_table, remove_table, sequences
from londiste.replication.model import TableOptions
from londiste.shell import language, lexer, show
from londiste.shell import statements as s
from londiste.shell.completion import Catalog
from londiste.shell.show import Result
from londiste.shell.statements import Statement

_IN_TRANSACTION = psycopg.pq.TransactionStatus.INTRANS
_FAILED = psycopg.pq.TransactionStatus.INERROR
_IDLE = psycopg.pq.TransactionStatus.IDLE


class Session:
    """A connection, and the current queue on it.

    queue -- for statements that name none; notice -- receives notices of the server.
    """

    def __init__(
        self, dsn: str, *, queue: str | None = None, notice: Callable[[str], None] | None = None
    ) -> None:
        self.dsn = dsn
        self.queue = queue
        self._notice = notice
        self.conn = self._open(dsn)
        try:
            if queue is not None:
                admin.find_queue(self.conn, queue)
        except LondisteError:
            self.conn.close()
            raise

    def close(self) -> None:
        self.conn.close()

    @property
    def prompt(self) -> str:
        """``shop/orders=>``: database, queue, and ``*`` in a transaction, ``!`` in a failed one."""
        state = self.conn.info.transaction_status
        sign = {_IDLE: "", _IN_TRANSACTION: "*"}.get(state, "!")
        queue = f"/{self.queue}" if self.queue else ""
        return f"{self.conn.info.dbname}{queue}={sign}> "

    def execute(self, text: str) -> Result:
        """Runs one statement, without its ``;``.  Opens a lost connection again."""
        statement = language.parse(text)
        try:
            return self._do(statement)
        except psycopg.Error as error:
            raise from_database(error, where=whereabouts(self.conn)) from error
        except KeyboardInterrupt:
            # The interrupt came at a moment when the driver could not wait for the end.
            if self.conn.info.transaction_status not in {_IDLE, _IN_TRANSACTION, _FAILED}:
                self.conn.close()
            raise
        finally:
            if self.conn.closed:
                self.conn = self._open(self.dsn)

    def catalog(self) -> Catalog:
        """The names in the database; empty in a failed transaction."""
        if self.conn.closed or self.conn.info.transaction_status not in {_IDLE, _IN_TRANSACTION}:
            return Catalog()
        try:
            with self.conn.transaction():
                return self._catalog()
        except (LondisteError, psycopg.Error):
            return Catalog()

    # -- one method per kind of statement ---------------------------------------------------------

    def _do(self, statement: Statement) -> Result:
        match statement:
            case s.Sql(text):
                return self._sql(text)
            case s.Exit():
                return Result(end=True)
            case s.Connect(parameters):
                return self._connect(parameters)
            case s.Install(component):
                return self._install(component)
            case s.ShowHelp():
                return Result(("statement", "meaning"), language.help_lines())
            case s.ShowVersion():
                return show.show_version(self.conn)
            case s.ShowQueue(queue):
                return show.show_queue(self.conn, queue)
            case s.ShowConsumer(consumer, queue):
                return show.show_consumer(self.conn, consumer, queue or self.queue)
            case s.ShowNode(node, queue):
                return show.show_node(self.conn, self._chosen(queue), node)
            case s.ShowBatch(batch):
                return show.show_batch(self.conn, self._batch(batch))
            case s.ShowTable(table):
                return show.show_table(self.conn, self._queues_of_nodes(), table)
            case s.ShowSequence(sequence):
                return show.show_sequence(self.conn, self._queues_of_nodes(), sequence)
            case (
                s.AddTables()
                | s.AddSequences()
                | s.RemoveTables()
                | s.RemoveSequences()
                | s.ListTables()
                | s.ListSequences()
                | s.ListMissing()
            ):
                return self._replication(statement)
            case _:
                return self._change(self._changes(statement))

    def _changes(self, statement: Statement) -> Sequence[admin.QueueChange]:
        conn = self.conn
        match statement:
            case s.CreateQueue(queue):
                return admin.creating(conn, queue)
            case s.DropQueue(queue, force):
                return admin.dropping(conn, [queue], force=force)
            case s.AlterQueue(queue, settings):
                values: dict[str, str | None] = {}
                for name, text in settings.items():
                    key = config.parameter(name)
                    values[key] = config.value(key, text)
                names = admin.find_queues(conn, [queue])
                return [change for one in names for change in admin.configuring(one, values)]
            case s.RegisterConsumer(consumer, queue, tick, copy):
                at = None if tick is None else _number(tick, "tick")
                return admin.registering(conn, self._chosen(queue), consumer, at=at, copy=copy)
            case s.UnregisterConsumer(consumer, queue):
                every = consumer == "*"
                names = [] if every else [consumer]
                return admin.unregistering(conn, self._chosen(queue), names, every=every)
            case s.RegisterSubconsumer(worker, consumer, queue):
                return admin.registering_worker(conn, self._chosen(queue), consumer, worker)
            case s.UnregisterSubconsumer(worker, consumer, queue, close):
                return admin.unregistering_worker(
                    conn, self._chosen(queue), consumer, worker, close_batch=close
                )
            case _:
                raise AssertionError(statement)

    def _change(self, changes: Sequence[admin.QueueChange]) -> Result:
        with self.conn.transaction():
            for change in changes:
                change.act(self.conn)
        return Result(lines=[change.text for change in changes] or ["nothing to do"])

    def _sql(self, text: str) -> Result:
        words = [token.text.lower() for token in lexer.tokens(text) if token.kind == "word"]
        if words[:1] == ["copy"] and {"stdin", "stdout"} & set(words):
            raise BadOption(
                "COPY from or to the client is not supported",
                hint="use psql, or a file of the server",
            )
        with self.conn.cursor() as cursor:
            # Bytes: the text goes to the server as it was typed, % and all.
            cursor.execute(text.encode())
            found = cursor.pgresult
            if found is None or cursor.description is None:
                return Result(lines=[cursor.statusmessage or ""])
            columns = [column.name for column in cursor.description]
            # The server's own text of every value, as it would be written in SQL.
            rows = [
                [_text(found.get_value(row, column)) for column in range(found.nfields)]
                for row in range(found.ntuples)
            ]
            return Result(columns, rows, lines=[cursor.statusmessage or ""])

    def _connect(self, parameters: dict[str, str]) -> Result:
        unknown = sorted(set(parameters) - set(language.CONNECT_WORDS))
        if unknown:
            raise BadOption(
                f"connect has no option {unknown[0]}",
                hint="options: " + ", ".join(f"{word}=" for word in language.CONNECT_WORDS),
            )
        self._outside("connect")
        given = dict(parameters)
        node, queue = given.pop("node", None), given.pop("queue", None)
        # Another database of the same server keeps host and user; a service names its own.
        base = "" if "service" in given else self.dsn
        dsn = conninfo.make_conninfo(base, **given) if given else self.dsn
        conn = self._open(dsn) if given else self.conn
        try:
            chosen = queue or (self.queue if not given else None)
            if queue is not None:
                admin.find_queue(conn, queue)
            if node is not None:
                if chosen is None:
                    raise _no_queue("connect queue=QUEUE node=NODE")
                known = {one.name: one.location for one in nodes.get_queue_locations(conn, chosen)}
                if node not in known:
                    raise UnknownNode(
                        f"no node {node} of queue {chosen}",
                        hint="nodes: " + ", ".join(known) if known else "the queue has no nodes",
                    )
                dsn = conninfo.make_conninfo(known[node])
                other = self._open(dsn)
                if conn is not self.conn:
                    conn.close()
                conn = other
        except LondisteError:
            if conn is not self.conn:
                conn.close()
            raise
        if conn is not self.conn:
            self.conn.close()
        self.conn, self.dsn, self.queue = conn, dsn, chosen
        return Result(
            lines=[f"connected to {describe_dsn(dsn)}" + (f", queue {chosen}" if chosen else "")]
        )

    def _install(self, component: str) -> Result:
        self._outside("install")
        known = source.load()
        wanted = {
            "pgq": source.of_queues(known),
            "londiste": list(known),
        }.get(component.lower())
        if wanted is None:
            raise BadOption(f"nothing to install: {component}", hint="install pgq or londiste")
        steps = apply.install(self.conn, wanted)
        return Result(lines=[f"{len(steps)} files ran" if steps else "up to date"])

    def _batch(self, batch: str) -> int:
        """The number of a batch, given as such or by its consumer."""
        if batch.isdigit():
            return int(batch)
        state = admin.find_consumer(self.conn, self._chosen(None), batch)
        if state.current_batch is None:
            raise StateError(f"consumer {batch} has no batch open", hint=f"show consumer {batch}")
        return state.current_batch

    def _replication(self, statement: Statement) -> Result:
        queue = self._chosen(None)
        match statement:
            case s.ListTables():
                return show.list_tables(self.conn, queue)
            case s.ListSequences():
                return show.list_sequences(self.conn, queue)
            case s.ListMissing():
                return show.list_missing(self.conn, queue)
        self._outside("londiste")
        with Connections(name="londiste shell") as sites:
            match statement:
                case s.AddTables(names, options):
                    wanted = table_options(options)
                    todo = add_table.plan(sites, self.dsn, queue, names, wanted)
                case s.AddSequences(names):
                    todo = sequences.plan_add(sites, self.dsn, queue, names)
                case s.RemoveTables(names):
                    todo = remove_table.plan(sites, self.dsn, queue, names)
                case s.RemoveSequences(names):
                    todo = sequences.plan_remove(sites, self.dsn, queue, names)
                case _:
                    raise AssertionError(statement)
            done: list[str] = []
            plan.execute(todo.steps, sites, lambda step: done.append(step.describe()))
        return Result(lines=[*done, *(f"{name}: done before" for name in todo.already)])

    # -- help -------------------------------------------------------------------------------------

    def _open(self, dsn: str) -> Connection:
        conn = connect(dsn, name="londiste shell", autocommit=True, synchronous=True)
        try:
            use_own_names(conn)
        except psycopg.Error as error:
            conn.close()
            raise from_database(error, where=describe_dsn(dsn)) from error
        if self._notice is not None:
            tell = self._notice
            conn.add_notice_handler(
                lambda one: tell(f"{one.severity or 'NOTICE'}: {one.message_primary}")
            )
        return conn

    def _chosen(self, queue: str | None) -> str:
        chosen = queue or self.queue
        if chosen is None:
            raise _no_queue("connect queue=QUEUE")
        return chosen

    def _outside(self, what: str) -> None:
        if self.conn.info.transaction_status != _IDLE:
            raise StateError(
                f"{what} does not work inside a transaction", hint="commit or roll back first"
            )

    def _queues_of_nodes(self) -> list[str]:
        if not self._rows("relation_exists", relation="londiste.table_info")[0][0]:
            return []
        return [self.queue] if self.queue else [str(n) for (n,) in self._rows("queues_of_nodes")]

    def _rows(self, name: str, **parameters: object) -> list[tuple[Any, ...]]:
        return tuples(self.conn, name, **parameters)

    def _catalog(self) -> Catalog:
        consumers: dict[str, list[str]] = {}
        workers: dict[tuple[str, str], list[str]] = {}
        for one in queues.get_consumer_info(self.conn):
            consumers.setdefault(one.queue_name, []).append(one.consumer_name)
        for queue, found in consumers.items():
            for name in found:
                main, dot, rest = name.rpartition(".")
                if dot and main in found:
                    workers.setdefault((queue, main), []).append(rest)
        relations = [(str(kind), str(name)) for kind, name in self._rows("shell_relations")]
        members: list[str] = []
        if self.queue and self._rows("relation_exists", relation="pgq_node.node_location")[0][1]:
            members = [one.name for one in nodes.get_queue_locations(self.conn, self.queue)]
        return Catalog(
            queues=tuple(each.queue_name for each in queues.get_queue_info(self.conn)),
            consumers={queue: tuple(found) for queue, found in consumers.items()},
            subconsumers={key: tuple(found) for key, found in workers.items()},
            nodes=tuple(members),
            tables=tuple(name for kind, name in relations if kind == "table"),
            sequences=tuple(name for kind, name in relations if kind == "sequence"),
            databases=tuple(str(name) for (name,) in self._rows("other_databases")),
        )


def table_options(given: dict[str, str | None]) -> TableOptions:
    """The options of ``londiste add table``; BadOption for an unknown one."""
    flags = ""
    arguments: list[str] = []
    words: dict[str, bool] = {}
    for name, value in given.items():
        if name not in language.TABLE_OPTIONS:
            raise BadOption(
                f"no option {name}", hint="options: " + ", ".join(language.TABLE_OPTIONS)
            )
        takes_value = name in {"tgflags", "when"} or name.startswith("ev_")
        if takes_value == (value is None):
            raise BadOption(
                f"option {name} " + ("needs a value" if takes_value else "takes no value"),
                hint=f"write {name}='…'" if takes_value else f"write {name}",
            )
        if name == "tgflags":
            flags = value or ""
        elif takes_value:
            arguments.append(f"{name}={value}")
        elif name in {"backup", "skip"}:
            arguments.append(name)
        else:
            words[name] = True
    return TableOptions(
        expect_sync="expect_sync" in words,
        skip_truncate="skip_truncate" in words,
        triggers="no_triggers" not in words,
        trigger_flags=flags,
        trigger_args=tuple(arguments),
    )


def _number(text: str, what: str) -> int:
    if not text.isdigit():
        raise BadOption(f"not a {what}: {text}", hint=f"a {what} is a number")
    return int(text)


def _no_queue(example: str) -> BadOption:
    return BadOption("no current queue", hint=f"name it in the statement, or: {example};")


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
