"""Command line of Londiste: a table of commands, each imported only when it is used.

``--help`` is printed from the table, so it loads neither Spark nor a database driver.

A command has a module of its name, in the package of its heading (``nodes``, ``cascade``,
``tables``, ``daemons``, ``inspect``, ``setup``) or of its group (``queue``, ``copy``, …). What
commands of one package share is in its ``common``. To add a command: a line here, a click command
of that name in its module, and a section ``### `NAME …` `` in docs/reference/commands.md.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

import click

from londiste import __version__
from londiste.cli.lazy import Entry, LazyGroup, Word

START = "Getting started"
NODES = "Nodes"
TABLES = "Tables"
DAEMONS = "Daemons"
CHECKS = "Inspect and verify"
SETUP = "Set-up"
QUEUES = "Queues"

COMMANDS: dict[str, Entry] = {
    "demo": Entry("setup.demo", "Run a demo: two temporary servers replicating.", START),
    "replicate": Entry(
        "setup.replicate", "Replicate a database into another one by one command.", START
    ),
    "config": Entry("setup.config", "Print an annotated configuration file.", START),
    "doctor": Entry(
        "setup.doctor", "Find what would stop or harm replication of two databases.", START
    ),
    "selftest": Entry(
        "setup.selftest", "Test replication between two databases, in schemas of its own.", START
    ),
    "install": Entry("setup.install", "Install or upgrade the SQL in a database.", START),
    "migrate": Entry("migrate", "Move a whole database to another server.", START),
    "help": Entry("setup.help", "Print the help of a command.", START),
    "plan": Entry("setup.plan", "Show the steps that make a cascade like its file.", SETUP),
    "apply": Entry("setup.apply", "Make a cascade like its file.", SETUP),
    "export": Entry("setup.export", "Print the file of a cascade that exists.", SETUP),
    "version": Entry("setup.version", "Print the version of Londiste.", SETUP),
    "uninstall": Entry("setup.uninstall", "Remove the SQL from a database.", SETUP),
    "completion": Entry(
        "setup.completion", "Print or install the completion script for a shell.", SETUP
    ),
    "man": Entry("setup.man", "Write the manual pages.", SETUP),
    "create-root": Entry("nodes.create_node", "Make this database the root of a queue.", NODES),
    "create-branch": Entry(
        "nodes.create_node",
        "Make this database a branch: a subscriber that forwards events.",
        NODES,
    ),
    "create-leaf": Entry(
        "nodes.create_node", "Make this database a leaf: a subscriber without subscribers.", NODES
    ),
    "pause": Entry("nodes.pause", "Pause the node's worker after its current batch.", NODES),
    "resume": Entry("nodes.pause", "Resume the node's worker.", NODES),
    "change-provider": Entry(
        "cascade.change_provider", "Switch a node to another provider.", NODES
    ),
    "switchover": Entry("cascade.switchover", "Make another node the root.", NODES),
    "takeover": Entry(
        "cascade.takeover", "Replace a node by a branch (failover or planned).", NODES
    ),
    "resurrect": Entry("cascade.resurrect", "Rejoin a failed root as a branch.", NODES),
    "drop-node": Entry("cascade.drop_node", "Remove a node from the cascade.", NODES),
    "rename-node": Entry("cascade.rename_node", "Rename a node on all nodes.", NODES),
    "move-node": Entry(
        "cascade.move_node", "Store a node's new connection string on all nodes.", NODES
    ),
    "tag-dead": Entry("cascade.tag_dead", "Mark a node as failed.", NODES),
    "tag-alive": Entry("cascade.tag_dead", "Clear the failed mark of a node.", NODES),
    "sync-watermark": Entry(
        "nodes.sync_watermark", "Set a branch to keep the watermark of a group of nodes.", NODES
    ),
    "members": Entry("nodes.members", "List the nodes of the queue.", NODES),
    "node-info": Entry(
        "nodes.node_info", "Show one node: type, provider, position and flags.", NODES
    ),
    "status": Entry("nodes.status", "Show the tree of nodes with tables and lag.", NODES),
    "wait-root": Entry(
        "nodes.wait", "Wait until this node has applied what the root has now.", NODES
    ),
    "wait-provider": Entry(
        "nodes.wait", "Wait until this node has applied what its provider has now.", NODES
    ),
    "add-table": Entry("tables.add_table", "Replicate tables.", TABLES),
    "remove-table": Entry("tables.remove_table", "Stop replicating tables.", TABLES),
    "change-form": Entry(
        "tables.change_form",
        "Set the capture mode of tables: row or statement.",
        TABLES,
        aliases=("change-capture",),
    ),
    "change-handler": Entry(
        "tables.change_handler", "Set the handler or the filter of tables.", TABLES
    ),
    "change-policy": Entry(
        "tables.change_policy", "Set the conflict resolution of tables.", TABLES
    ),
    "show-handlers": Entry("tables.show_handlers", "List the handlers and their options.", TABLES),
    "tables": Entry("tables.tables", "List the replicated tables and their states.", TABLES),
    "missing": Entry(
        "tables.missing", "List tables and sequences that are not replicated yet.", TABLES
    ),
    "resync": Entry("tables.resync", "Copy tables again.", TABLES),
    "wait-sync": Entry("tables.wait_sync", "Wait until all tables are in sync.", TABLES),
    "add-seq": Entry("tables.sequences", "Replicate sequences.", TABLES),
    "remove-seq": Entry("tables.sequences", "Stop replicating sequences.", TABLES),
    "seqs": Entry("tables.sequences", "List the replicated sequences.", TABLES),
    "fkeys": Entry("tables.fkeys", "List dropped foreign keys and restore them.", TABLES),
    "columns": Entry(
        "tables.columns", "List columns that differ from the provider's; add missing ones.", TABLES
    ),
    "triggers": Entry(
        "tables.triggers", "List triggers of replicated tables; repair capture triggers.", TABLES
    ),
    "execute": Entry("execute", "Run DDL scripts on all nodes.", TABLES),
    "queue": Entry("queue", "Manage queues without replication: create, consume, inspect.", QUEUES),
    "run": Entry("daemons.run", "Run all daemons of a cascade file in one process.", DAEMONS),
    "web": Entry("daemons.web", "Show the cascade in a browser, live.", DAEMONS),
    "ticker": Entry("daemons.ticker", "Run the ticker: create ticks and maintain queues.", DAEMONS),
    "notify": Entry(
        "daemons.notify", "Send findings of a cascade to a webhook or a command.", DAEMONS
    ),
    "tick": Entry("daemons.tick", "Create a tick now.", DAEMONS),
    "worker": Entry("daemons.worker", "Apply the provider's batches to this node.", DAEMONS),
    "dispatch": Entry(
        "daemons.dispatch", "Write a queue's rows into tables and partitions.", DAEMONS
    ),
    "copy": Entry("copy", "Monitor, pause and throttle table copies.", DAEMONS),
    "lake": Entry("lake", "Maintain copies of tables in Parquet files; compare them.", DAEMONS),
    "check": Entry("inspect.check", "Check how the tables of this node are captured.", CHECKS),
    "compare": Entry("inspect.compare", "Compare tables with the root's at one tick.", CHECKS),
    "repair": Entry("inspect.repair", "Repair differing rows with a reviewed plan.", CHECKS),
    "events": Entry(
        "inspect.events",
        "Inspect, skip or retry events that failed to apply.",
        CHECKS,
        aliases=("apply-errors",),
    ),
    "metrics": Entry("inspect.metrics", "Print metrics, alert rules or a dashboard.", CHECKS),
    "batch": Entry("inspect.batch", "Show the open batch of a consumer.", CHECKS),
    "provider": Entry(
        "pair.provider", "Generation 2: manage the provider of a pair.", SETUP, hidden=True
    ),
    "subscriber": Entry(
        "pair.subscriber", "Generation 2: manage the subscriber of a pair.", SETUP, hidden=True
    ),
    "replay": Entry("pair.replay", "Generation 2: replicate a pair.", DAEMONS, hidden=True),
    "debug": Entry("inspect.debug", "Show internals for tests.", CHECKS, hidden=True),
}


@click.group(
    cls=LazyGroup,
    package="londiste.cli",
    first=START,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "-c",
    "--config",
    "config",
    metavar="FILE",
    help="Settings file: TOML, or INI (default: $LONDISTE_CONFIG, then ./londiste.toml).",
)
@click.option(
    "--node", type=Word(), metavar="NAME", help="Node of a file that describes a whole cascade."
)
@click.option("-q", "--quiet", is_flag=True, help="Print warnings and errors only.")
@click.option("-v", "--verbose", count=True, help="More log output (-vv: debug).")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one setting."
)
@click.version_option(__version__, "-V", "--version", prog_name="londiste")
@click.pass_context
def cli(
    ctx: click.Context,
    config: str | None,
    node: str | None,
    quiet: bool,
    verbose: int,
    overrides: Sequence[str],
) -> None:
    """Replicate tables between PostgreSQL databases.

    \b
    londiste [-c FILE] [--node NAME] COMMAND [ARGS]
    londiste FILE.ini COMMAND [ARGS]
    """
    from londiste.cli.options import Context

    ctx.obj = Context.make(config, quiet=quiet, verbose=verbose, overrides=overrides, node=node)


_OF_THE_DAEMON = frozenset(
    ("-d", "--daemon", "-r", "--reload", "-s", "--stop", "-k", "--kill"),
)
_OF_THE_PROGRAM = frozenset(("-v", "--verbose", "-q", "--quiet"))


def main(argv: Sequence[str] | None = None) -> None:
    """Runs a command and ends the process with the exit code of its result."""
    from londiste.cli.errors import run

    sys.exit(run(cli, _old_form(list(sys.argv[1:] if argv is None else argv))))


def _old_form(argv: list[str]) -> list[str]:
    """``FILE.ini COMMAND``, the form of Londiste 3, becomes ``-c FILE.ini COMMAND``.

    There options of the daemon may precede the file, and options of the program follow the command.
    """
    takes_value = {"-c", "--config", "--set", "--node"}
    position = 0
    while position < len(argv) and argv[position].startswith("-"):
        position += 2 if argv[position] in takes_value else 1
    if position >= len(argv) or not argv[position].endswith((".ini", ".toml")):
        return argv
    before = [word for word in argv[:position] if word not in _OF_THE_DAEMON]
    daemon = [word for word in argv[:position] if word in _OF_THE_DAEMON]
    rest: list[str] = []
    # The command tables has an option -v of its own.
    words = iter(argv[position + 1 :])
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word == "--set":
            before += [word, *itertools.islice(words, 1)]
        elif (word in _OF_THE_PROGRAM and "tables" not in rest) or word.startswith("--set="):
            before.append(word)
        else:
            rest.append(word)
    if _OF_THE_DAEMON.intersection(daemon + rest) and all(w.startswith("-") for w in rest):
        # They are about the program that runs by the file, which is the worker.
        rest.insert(0, "worker")
    return [*before, "-c", argv[position], *rest[:1], *daemon, *rest[1:]]
