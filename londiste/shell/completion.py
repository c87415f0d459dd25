"""Completion: possible next words for the text before the cursor, from names of the database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.db.queries import tuples
from londiste.errors import LondisteError
from londiste.pgq import queues
from londiste.pgq.config import PARAMETERS
from londiste.shell import lexer
from londiste.shell.language import Slot, Word, expectations
from londiste.shell.lexer import Token
from londiste.shell.node_statements import TABLE_OPTIONS
from londiste.shell.session import Session
from londiste.shell.statements import CONNECT_WORDS, FORMS


@dataclass(frozen=True)
class Catalog:
    """Names in the database for the completion.

    consumers, subconsumers -- by queue, the latter by (queue, consumer).
    tables, sequences -- as they are registered with a queue, ``schema.name``.
    """

    queues: tuple[str, ...] = ()
    consumers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    subconsumers: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    sequences: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()


def catalog(session: Session) -> Catalog:
    """The names in the database; empty in a failed transaction."""
    if not session.usable:
        return Catalog()
    try:
        with session.names(), session.conn.transaction():
            return _names_of(session)
    except (LondisteError, psycopg.Error):
        return Catalog()


def _names_of(session: Session) -> Catalog:
    conn = session.conn
    consumers: dict[str, list[str]] = {}
    workers: dict[tuple[str, str], list[str]] = {}
    for one in queues.get_consumer_info(conn):
        consumers.setdefault(one.queue_name, []).append(one.consumer_name)
    for queue, found in consumers.items():
        for name in found:
            main, dot, rest = name.rpartition(".")
            if dot and main in found:
                workers.setdefault((queue, main), []).append(rest)
    relations = [(str(kind), str(name)) for kind, name in tuples(conn, "shell_relations")]
    members: list[str] = []
    if session.queue and tuples(conn, "relation_exists", relation="pgq_node.node_location")[0][1]:
        members = [one.name for one in nodes.get_queue_locations(conn, session.queue)]
    return Catalog(
        queues=tuple(each.queue_name for each in queues.get_queue_info(conn)),
        consumers={queue: tuple(found) for queue, found in consumers.items()},
        subconsumers={key: tuple(found) for key, found in workers.items()},
        nodes=tuple(members),
        tables=tuple(name for kind, name in relations if kind == "table"),
        sequences=tuple(name for kind, name in relations if kind == "sequence"),
        databases=tuple(str(name) for (name,) in tuples(conn, "other_databases")),
    )


_SQL_STARTS = (
    "select",
    "insert into",
    "update",
    "delete from",
    "begin",
    "commit",
    "rollback",
    "explain",
    "with",
)
_BEFORE_TABLE = {"from", "join", "into", "update", "table", "truncate", "analyze", "vacuum"}


def complete(text: str, catalog: Catalog, queue: str | None = None) -> list[str]:
    """The words that may replace the last one of ``text``, which is all up to the cursor.

    queue -- the chosen one; None: none.  Names are quoted where necessary.
    """
    found, begun = _last_word(text)
    candidates = dict.fromkeys(_candidates(found, catalog, queue))
    if not candidates and found:
        candidates = dict.fromkeys(_of_sql(found, catalog))
    return [one for one in candidates if _begins(one, begun)]


def begun(text: str) -> str:
    """The typed part of the last word: the text that a candidate replaces."""
    return _last_word(text)[1]


def _last_word(text: str) -> tuple[list[Token], str]:
    _, rest = lexer.split(text)
    found = lexer.tokens(rest)
    # Space behind the last word means that it is over.
    if found and found[-1].end == len(rest) and found[-1].kind != "sign":
        return found[:-1], rest[found[-1].start :]
    return found, ""


def _candidates(found: list[Token], catalog: Catalog, queue: str | None) -> Iterable[str]:
    for element, values in expectations(found, FORMS):
        if isinstance(element, Word):
            yield element.text
        elif isinstance(element, Slot):
            yield from _names(element, values, catalog, queue)
    if not found:
        yield from _SQL_STARTS


def _names(
    slot: Slot, values: Mapping[str, Any], catalog: Catalog, queue: str | None
) -> Iterable[str]:
    chosen = str(values.get("queue") or queue or "")
    star = ("*",) if slot.star else ()
    match slot.kind:
        case "queue":
            names: Iterable[str] = (*catalog.queues,)
        case "consumer" | "batch":
            names = (
                catalog.consumers.get(chosen, ())
                if chosen in catalog.consumers
                else dict.fromkeys(name for each in catalog.consumers.values() for name in each)
            )
        case "subconsumer":
            names = dict.fromkeys(
                name
                for (of_queue, _), each in catalog.subconsumers.items()
                if chosen in ("", of_queue)
                for name in each
            )
        case "node":
            names = catalog.nodes
        case "table":
            names = catalog.tables
        case "sequence":
            names = catalog.sequences
        case "component":
            return ("pgq", "londiste")
        case "settings":
            return tuple(f"{name} = " for name in PARAMETERS)
        case "options":
            return TABLE_OPTIONS
        case "connection":
            return tuple(f"{word}=" for word in CONNECT_WORDS)
        case "value":
            return _values(slot.field, catalog)
        case _:
            return ()
    return (*star, *(quoted(name) for name in names))


def _values(name: str, catalog: Catalog) -> Iterable[str]:
    known = {"queue": catalog.queues, "node": catalog.nodes, "dbname": catalog.databases}
    if name in known:
        return [quoted(one) for one in known[name]]
    parameter = PARAMETERS.get(name.removeprefix("queue_"))
    if parameter is None:
        return ()
    words = ("true", "false") if parameter.kind == "yes or no" else ()
    return (*words, *(("null",) if parameter.nullable else ()))


def _of_sql(found: list[Token], catalog: Catalog) -> Iterable[str]:
    last = found[-1]
    if last.kind == "word" and last.text.lower() in _BEFORE_TABLE:
        return [quoted(name) for name in catalog.tables]
    return ()


def quoted(name: str) -> str:
    """A name in the form in which it can be typed."""
    if re.fullmatch(r"[A-Za-z0-9_.\-:/@]+", name) and "--" not in name:
        return name
    return '"' + name.replace('"', '""') + '"'


def _begins(candidate: str, begun: str) -> bool:
    return candidate.lower().startswith(begun.lower()) or (
        begun[:1] in {'"', "'"} and candidate.strip('"').lower().startswith(begun[1:].lower())
    )
