"""Catalog of the findings of ``status --check``, ``check`` and ``queue status``, and their pages.

docs/reference/findings.md is made from it. The ids of ``doctor`` are in the checks themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from londiste.monitor.queues.model import Finding
from londiste.monitor.table_findings import TABLES

#: Address of the repository's pages.
BASE = "https://github.com/londiste/londiste/blob/main/docs"

#: By heading: the ids, what each means, and what helps.
GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Nodes": {
        "unreachable": (
            "A node does not answer, or its stored location leads to another node. It is a warning"
            " if the node is marked as failed.",
            "Start its server. If it has another address: londiste move-node NODE CONNECTION."
            " If it is lost: londiste tag-dead NODE, then takeover or drop-node.",
        ),
        "node-copy": (
            "The database is a copy of a node's: the node answers at another place. Workers, and"
            " commands that change the cascade, refuse to work in the copy.",
            "The finding contains the command that makes the copy an independent database. If the"
            " node has moved to it: londiste move-node NODE CONNECTION.",
        ),
        "no-root": (
            "No root answers: new changes do not arrive, and lag is unknown.",
            "Start the root. If it has another address: londiste move-node NODE CONNECTION."
            " If it is lost: londiste takeover.",
        ),
        "subscription": (
            "A node is registered as a subscriber of a node from which it does not read.",
            "Repeat the command that moved it, or run the statement that the finding names.",
        ),
        "unknown-node": (
            "A node that was chosen with --node (run, notify) is not in the cascade: it was dropped"
            " or renamed, or the name is wrong.",
            "londiste members shows the nodes; name one of them.",
        ),
        "halted": (
            "An event cannot be applied. Nothing after it is applied until it is decided.",
            "londiste events show prints the event, its row, and the commands that decide it.",
        ),
        "error": (
            "An error stops a worker or another consumer of a node; it retries.",
            "Read the message, correct the cause, and check the log of the worker.",
        ),
        "worker": (
            "The worker of a node does not run: the node applies no changes.",
            "The finding contains the command that starts it.",
        ),
        "ticker": (
            "No ticker runs for the queue: it gets no ticks, and its tables do not rotate.",
            "The finding contains the command that starts it.",
        ),
        "notify": (
            "The notifier does not run, or cannot deliver: findings do not reach operators.",
            "londiste notify starts it, and londiste notify --test checks its channels.",
        ),
        "audit": (
            "The audit (compare --continuous) does not run or fails: differences are not found.",
            "Correct the error that the finding contains, or start it: londiste compare"
            " --continuous.",
        ),
        "read-from": (
            "The standby that read_from names has not been usable for a minute: it lags, is down,"
            " was promoted, or is not a standby of the provider. The worker reads from the"
            " provider.",
            "Start or repair the standby, or correct read_from; the finding contains the reason.",
        ),
        "paused": (
            "The worker is paused: it applies nothing until it is resumed.",
            "londiste resume --node NODE.",
        ),
        "watermark-group": (
            "The watermark group of a branch names only nodes that the cascade does not have.",
            "londiste sync-watermark sets the group of a branch, or ends it with --off.",
        ),
        "operation": (
            "A change of the cascade is unfinished, for example a switchover.",
            "Repeat its command, which the finding contains; it continues after its last step.",
        ),
        "lag": (
            "A node is behind by more than --max-lag or --max-backlog allow, or its position has"
            " expired.",
            "londiste status names the part of the latency that takes longest.",
        ),
        "unknown": (
            "A node does not report whether its worker runs, whether its tables are in sync, or its"
            " lag, or it answers with an error: its SQL is of Londiste 3, of an earlier version or"
            " missing, or the user lacks a privilege. Nobody has to replace such a node.",
            "If the finding names a grant, execute it. Otherwise check that node with its own"
            " version, or install the SQL: londiste install --dry-run.",
        ),
        "held": (
            "A consumer or a watermark keeps events of a queue, whose tables do not rotate.",
            "Start that consumer or node, or remove it: londiste queue status QUEUE.",
        ),
        "lock-wait": (
            "A session of Londiste has waited for a lock for more than ten seconds: another"
            " transaction holds it.",
            "End that transaction; the finding contains the statement. Until then nothing is lost.",
        ),
        "schema-owner": (
            "Another role owns a schema of Londiste or an object in it, or may create objects"
            " there. It can replace functions that daemons and commands call, and act as their"
            " role. So a superuser calls none.",
            "The finding contains the statement that ends it. Look at the objects of the schema"
            " first: what is not trusted is dropped. If the stored location of a node leads to a"
            " wrong database: londiste move-node.",
        ),
        "internal-rights": (
            "A role that is no administrator can write internal tables of Londiste, or call"
            " functions of administrators. It can have scripts executed on all subscribers. Default"
            " privileges of the installing role gave it the rights in an earlier release, or GRANT"
            " did.",
            "Execute the statements of the finding. Repeat pgq.grant_produce() for the queues into"
            " which the role writes, and grant pgq_reader to a role that consumes.",
        ),
        "connection": (
            "Sessions of Londiste are neither encrypted nor local.",
            "Use sslmode=verify-full and a root certificate.",
        ),
    },
    "Tables": TABLES,
    "Queues": {
        "ticker-never-ran": (
            "The queue never got a tick: no ticker serves its database.",
            "Start one: londiste ticker, or londiste run.",
        ),
        "ticker-stopped": (
            "The queue gets no ticks any more: consumers get no events.",
            "Start the ticker; if it runs, check its log, and restart it. The finding names a"
            " transaction that may lock the row of the queue, and commits that wait for a"
            " synchronous standby.",
        ),
        "ticker-fails": (
            "The ticker runs, but reports an error, for example of a maintenance operation that"
            " failed in two rounds.",
            "Correct the error that the finding contains. londiste queue maint repeats the"
            " operations; those of extra_maint are in londiste queue config QUEUE.",
        ),
        "ticker-paused": (
            "The parameter ticker_paused is set: the queue gets no ticks.",
            "londiste queue config QUEUE ticker_paused=no.",
        ),
        "external-ticker-silent": (
            "The queue gets its ticks from another database, and gets none.",
            "Check the worker of this node, and the ticker of the root: londiste status. On a root"
            " the parameter is a mistake, unless disable_insert is set, too (root-closed):"
            " londiste queue config QUEUE external_ticker=no.",
        ),
        "root-closed": (
            "The root takes no events and no ticks: a switchover is unfinished, or another node has"
            " replaced this root.",
            "londiste status names the unfinished change. Without one: londiste resurrect makes the"
            " node a branch. Do not set the parameters of its queue: the cascade would have two"
            " roots.",
        ),
        "restored": (
            "The database was restored from another server: its transaction ids do not fit.",
            "londiste queue rebase, before anything else.",
        ),
        "insert-disabled": (
            "The parameter disable_insert is set: inserting an event fails.",
            "londiste queue config QUEUE disable_insert=no.",
        ),
        "sequence-cache": (
            "The event sequence has a cache: event ids are out of order between sessions.",
            "alter sequence … cache 1.",
        ),
        "event-index": (
            "Event tables lack the index on ev_txid: each batch reads them completely.",
            "londiste install creates it, or the statements of the finding.",
        ),
        "delayed-overdue": (
            "Delayed events are due and were not inserted: the ticker does not run, or fails.",
            "londiste queue maint does it once; start the ticker.",
        ),
        "clock-back": (
            "The newest tick is older than one before it, or lies in the future: a clock was set"
            " back. Lag of positions before it is estimated or unknown.",
            "Synchronise the clock, as timedatectl set-ntp true does; the finding ends when"
            " consumers have passed these ticks.",
        ),
        "rotation-half-done": (
            "The second step of a rotation never ran: maintenance has stopped.",
            "londiste queue maint, and start the ticker.",
        ),
        "rotation-held": (
            "An open transaction is older than the last rotation: event tables grow.",
            "End that transaction; the finding names it.",
        ),
        "rotation-pinned": (
            "A consumer needs old events: event tables grow.",
            "Start the consumer, or londiste queue unregister QUEUE CONSUMER."
            " A cooperative consumer with a batch: start it again, or another that takes it over."
            " For a consumer of the cascade the finding names the command of its node.",
        ),
        "rotation-late": (
            "Event tables were not rotated in time, and no consumer needs them.",
            "End the transaction, or correct the cause of the error, that the finding names. If it"
            " names none: londiste queue maint, and check the log of the ticker.",
        ),
        "growing": (
            "A consumer reads slower than producers write.",
            "Add cooperative consumers, or find what slows it down.",
        ),
        "position-lost": (
            "The position of a consumer is a tick that does not exist any more.",
            "londiste queue register QUEUE CONSUMER --at TICK; events between are lost for it."
            " For the worker of a node: londiste worker --rewind, with the settings of that node.",
        ),
        "cooperative-dead": (
            "A cooperative consumer holds a batch and seems dead.",
            "Start it again under its name: it gets its batch. Another one takes over the batch"
            " with --set subconsumer_timeout='5 minutes', except under ONCE_PER_EVENT.",
        ),
        "consumer-paused": (
            "An operator has paused a consumer.",
            "londiste queue resume-consumer QUEUE CONSUMER.",
        ),
        "consumer-ended": (
            "The process of a consumer ended without reporting its end, or hangs.",
            "Start it, or londiste queue unregister QUEUE CONSUMER.",
        ),
        "consumer-inactive": (
            "A consumer has opened and finished no batch for long.",
            "Start it, or londiste queue unregister QUEUE CONSUMER."
            " For a consumer of the cascade the finding names the command of its node.",
        ),
        "consumer-lags": (
            "A consumer lags by more than --max-lag allows.",
            "londiste queue events QUEUE --consumer CONSUMER shows what it has not read.",
        ),
        "dead-letters": (
            "A consumer gave up on events, which are kept with the reason.",
            "londiste queue dead list QUEUE CONSUMER, then retry or drop them.",
        ),
        "retries-overdue": (
            "Events are due for a retry and were not delivered: the ticker does not run, or fails.",
            "londiste queue maint does it once; start the ticker.",
        ),
        "snapshot-held": (
            "A transaction, a prepared transaction or a slot holds an old snapshot.",
            "End it; the finding contains the command.",
        ),
        "xid-age": (
            "The transaction ids of an event table are old; at 2 billion the server stops.",
            "londiste queue maint, then vacuum (freeze) the tables of the queue.",
        ),
    },
    "Migrations": {
        "left-out": (
            "The chosen method does not create objects of the old database, or parts of tables that"
            " the new server lacks.",
            "Accept it; or create objects by hand, or use --schema pg_dump.",
        ),
        "event-triggers": (
            "Event triggers fire at DDL of the migration, and their rows may be refused.",
            "Disable them until migrate finish; the finding contains the statements.",
        ),
        "not-valid": (
            "Constraints are NOT VALID: a copy stops at a row that violates one.",
            "Validate them, or drop them until the copy is complete.",
        ),
        "database": (
            "Settings, grants or the comment of the database itself differ.",
            "Run the statements of the finding in the new database; values of settings with a dot"
            " in the name are not shown.",
        ),
        "definers": (
            "SECURITY DEFINER functions would run with the rights of the user of the migration.",
            "Create their owners in the new server, or grant them to that user.",
        ),
        "rights": (
            "Owners or grants of the two databases differ, or cannot be set.",
            "Create the roles in the new server, and set owners and grants there.",
        ),
        "sequences": (
            "Sequences of the two databases differ, or one is behind.",
            "Create or change the sequence; londiste migrate start must be running.",
        ),
    },
}

_KNOWN = frozenset(kind for group in GROUPS.values() for kind in group)


@cache
def _of_doctor() -> frozenset[str]:
    # Imported here: what examines two databases is much, and only findings in JSON need it.
    from londiste.monitor.doctor.checks import ALL

    return frozenset(kind for one in ALL for kind in one.FINDINGS)


def page(kind: str, *, doctor: bool = False) -> str:
    """The address of the entry of an id.

    doctor -- found by ``doctor``, whose ids are partly those of other checks.
    """
    elsewhere = doctor or kind not in _KNOWN
    name = "doctor" if elsewhere and kind in _of_doctor() else "findings"
    return f"{BASE}/reference/{name}.md#{kind}"


@dataclass(frozen=True)
class ShownFinding(Finding):
    """A finding, and the address of its explanation.

    page -- the address.
    """

    page: str = ""


def shown(found: Sequence[Finding]) -> list[ShownFinding]:
    """Findings with their pages, for ``--json``."""
    return [ShownFinding(**vars(one), page=page(one.kind, doctor=bool(one.side))) for one in found]
