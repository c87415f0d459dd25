"""All statements of the queue shell, and those about its databases and itself."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from psycopg import conninfo

import londiste
from londiste.cascade import sqlapi as nodes
from londiste.db.connection import describe_dsn
from londiste.db.connstr.locations import reach
from londiste.errors import BadOption, LondisteError, UnknownNode
from londiste.install import apply, ledger, source
from londiste.pgq import admin
from londiste.shell import language, lexer, node_statements, queue_statements
from londiste.shell.session import Result, Session, no_queue

OWN = language.Forms()

CONNECT_WORDS = ("dbname", "host", "port", "user", "service", "queue", "node")


def execute(session: Session, text: str) -> Result:
    """Runs one statement, without its ``;``; what is none of the shell goes to the server."""
    parsed = language.parse(text, FORMS)
    if parsed is None:
        return session.run(functools.partial(sql, text=text.strip()), own_names=True)
    run, values = parsed
    return session.run(functools.partial(run, **values), own_names=run in (show_help, leave))


@OWN.statement("connect <connection:parameters>", "connect to another database, queue or node")
def connect(session: Session, parameters: dict[str, str]) -> Result:
    unknown = sorted(set(parameters) - set(CONNECT_WORDS))
    if unknown:
        raise BadOption(
            f"connect has no option {unknown[0]}",
            hint="options: " + ", ".join(f"{word}=" for word in CONNECT_WORDS),
        )
    session.outside("connect")
    given = dict(parameters)
    node, queue = given.pop("node", None), given.pop("queue", None)
    # Another database of the same server keeps host and user; a service names its own.
    base = "" if "service" in given else session.dsn
    dsn = conninfo.make_conninfo(base, **given) if given else session.dsn
    conn = session.open(dsn) if given else session.conn
    try:
        chosen = queue or (session.queue if not given else None)
        if queue is not None:
            admin.find_queue(conn, queue)
        if node is not None:
            if chosen is None:
                raise no_queue("connect queue=QUEUE node=NODE")
            known = {one.name: one.location for one in nodes.get_queue_locations(conn, chosen)}
            if node not in known:
                raise UnknownNode(
                    f"no node {node} of queue {chosen}",
                    hint="nodes: " + ", ".join(known) if known else "the queue has no nodes",
                )
            dsn = reach(known[node], "", node=node)
            other = session.open(dsn)
            if conn is not session.conn:
                conn.close()
            conn = other
    except LondisteError:
        if conn is not session.conn:
            conn.close()
        raise
    if conn is not session.conn:
        session.conn.close()
    session.conn, session.dsn, session.queue = conn, dsn, chosen
    return Result(
        lines=[f"connected to {describe_dsn(dsn)}" + (f", queue {chosen}" if chosen else "")]
    )


@OWN.statement("install <component:component>", "install or upgrade the SQL")
def install(session: Session, component: str) -> Result:
    session.outside("install")
    known = source.load()
    wanted = {
        "pgq": source.of_queues(known),
        "londiste": list(known),
    }.get(component.lower())
    if wanted is None:
        raise BadOption(f"nothing to install: {component}", hint="install pgq or londiste")
    steps = apply.install(session.conn, wanted)
    return Result(lines=[f"{len(steps)} files ran" if steps else "up to date"])


@OWN.statement("show version", "show versions of program, schemas and server")
def show_version(session: Session) -> Result:
    rows: list[Sequence[object]] = [["londiste", londiste.__version__]]
    with session.conn.transaction():
        found = ledger.read_all(session.conn, source.load())
    rows += [[f"schema {schema}", one.version] for schema, one in found.items()]
    server = session.conn.info.parameter_status("server_version")
    return Result(("component", "version"), [*rows, ["PostgreSQL", server]])


@OWN.statement("help", "this")
@OWN.statement("show help", "this")
def show_help(session: Session) -> Result:
    lines = [(language.readable(form.text) + ";", form.help) for form in FORMS]
    return Result(
        ("statement", "meaning"), [*lines, ("SQL …;", "anything else goes to the server")]
    )


@OWN.statement("quit", "leave")
@OWN.statement("exit", "leave the shell; also quit, ^D")
def leave(session: Session) -> Result:
    return Result(end=True)


def sql(session: Session, text: str) -> Result:
    """SQL for the server."""
    words = [token.text.lower() for token in lexer.tokens(text) if token.kind == "word"]
    if words[:1] == ["copy"] and {"stdin", "stdout"} & set(words):
        raise BadOption(
            "COPY from or to the client is not supported",
            hint="use psql, or a file of the server",
        )
    with session.conn.cursor() as cursor:
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


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


#: All forms, in the order of the help.
FORMS = [*OWN, *queue_statements.FORMS, *node_statements.FORMS]
