"""Keys of the file of a cascade with their descriptions, and a template of such a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ROLES = ("root", "branch", "leaf")

#: Keys of [nodes.NAME] that are not settings of its worker, and their descriptions.
NODE_KEYS = {
    "db": "Connection string of the node's database (required).",
    "role": "Type of the node: root, branch or leaf (required).",
    "provider": "Node that it reads from; required except for the root.",
    "location": "Connection string for the other nodes, without a password (default: db).",
    "worker": "Consumer name of its worker (default: QUEUE_NODE).",
    "tables": "Section [nodes.NAME.tables]: tables and rules of this node only.",
}
#: Keys of [tables] and [nodes.NAME.tables].
TABLES_KEYS = {
    "include": "Names and patterns of tables; a name without a dot is in schema public (default:"
    " those with a section; of a node: all that its provider has).",
    "exclude": "Names and patterns of tables that are not replicated.",
    "sequences": "Names and patterns of sequences besides those of columns, which follow their"
    " tables (default: such sequences stay as they are; of a node: all that its provider has).",
    "create": "Create missing tables: full (all parts), columns (and primary key) or no.",
    "allow_code": "Accept functions, rules and triggers of the provider in created tables; they run"
    " with the rights of the node's roles (default: false).",
    "copy_mode": "Copy mode of added tables: auto, snapshot or resumable.",
    "keyless": "How tables without key are added: insert_only (UPDATE and DELETE fail at the"
    " source) or whole_row (rows match by all columns); by default they are refused.",
}
#: Keys of [tables."PATTERN"] and [nodes.NAME.tables."PATTERN"].
RULE_KEYS = {
    "handler": "Handler of the tables: see londiste show-handlers.",
    "handler_args": "Section or inline table with the options of the handler.",
    "where": "Replicate only rows that match this SQL condition.",
    "columns": "Replicate only these columns.",
    "skip_columns": "Replicate all columns except these.",
    "on_error": "Conflict resolution: error, keep_local, apply_remote or skip_and_log.",
}
CREATE = ("full", "columns", "no")
KEYLESS = ("", "insert_only", "whole_row")


@dataclass(frozen=True)
class TablesSection:
    """Section ``[tables]``: which tables, and the rules of some.

    include, exclude -- names and patterns; None: not given.
    create -- how missing tables are created: full, columns or no.
    allow_code -- created tables may run code of the provider.
    rules -- by name or pattern, in the order of the file: handler, where, columns, on_error, …
    sequences -- besides those of columns: names and patterns; None: not managed, of a node all.
    """

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    create: str = "full"
    copy_mode: str = ""
    keyless: str = ""
    allow_code: bool = False
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sequences: tuple[str, ...] | None = None


def template() -> str:
    """An annotated file of a cascade of three nodes."""
    return _TEMPLATE


_TEMPLATE = """\
# One file for a whole cascade: londiste plan, londiste apply, londiste run.

[queue]
name = "shop"
#ticker_max_lag = "3 seconds"       # parameters of the queue

[nodes.main]
db = "host=main dbname=shop"        # connection string; passwords belong into ~/.pgpass
role = "root"

[nodes.standby]
db = "host=standby dbname=shop"
role = "branch"                     # forwards events; can become the root
provider = "main"

[nodes.reports]
db = "host=reports dbname=shop"
role = "leaf"
provider = "standby"
#parallel_copies = 4                # any setting of its worker

[tables]
include = ["public.*"]
#exclude = ["public.tmp_*"]
#sequences = ["public.invoices"]    # besides those of columns
#create = "full"                    # how missing tables are created: full, columns, no

#[tables."public.orders"]           # rules of tables on all subscribers
#where = "region = 'eu'"
#on_error = "skip_and_log"

#[nodes.reports.tables]             # tables and rules of one node
#exclude = ["public.audit"]

[worker]                            # settings of all workers

[ticker]                            # settings of the ticker

[spark]                             # settings of Spark

#[web]                              # the console: londiste run starts it
"""
