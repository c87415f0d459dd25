"""Adds the tables and sequences that match ``auto_add_tables``.

This compares states and needs no events: an object that the provider has, that matches and that is
missing here is added as ``add-table`` would, in transactions of its own and after the batch that
announced it.  So nothing is lost when the worker is killed.  A table that cannot be added blocks
nothing else: the worker logs it and tries again, and stores the reason in the node's database
(``follow_error``), for ``status`` and ``check``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from londiste.changes.row_values import origin
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.errors import LondisteError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute
from londiste.replication import sqlapi as tables
from londiste.replication.commands import add_table, sequences
from londiste.replication.model import ReplicatedTable, TableOptions
from londiste.replication.patterns import escaped, matches
from londiste.replication.registration_filter import RegistrationFilter
from londiste.settings import NodeSettings

log = logging.getLogger(__name__)

#: Seconds until what could not be added is tried again, and sequences are looked for.
_AGAIN = 10.0
#: Seconds to wait for a lock on a table; the worker stands still meanwhile.
_LOCK = 1.0


def follows(settings: NodeSettings, name: TableName) -> bool:
    """Whether a node with these settings adds a table as soon as it is announced."""
    return matches(name, settings.auto_add_tables) and not matches(name, settings.auto_add_exclude)


def options(settings: NodeSettings) -> TableOptions:
    """The options such a table is added with."""
    return TableOptions(
        create=settings.auto_add_create == "columns", create_full=settings.auto_add_create == "full"
    )


class AutoAdd:
    """Adds the tables and sequences that match the settings of a node.

    ``look_after`` costs next to nothing while nothing has changed.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._settled: object = None
        self._next = 0.0
        self._said: dict[TableName, str] = {}
        #: What is noted in the database; None: what an earlier process has left.
        self._noted: dict[str, str] | None = None

    def look_after(self, conn: Connection, known: Sequence[ReplicatedTable]) -> bool:
        """Adds missing tables.  Returns whether there were any.

        known -- the tables of this node; the same object again when nothing has changed.
        """
        if not self._settings.auto_add_tables:
            if self._noted is None:
                self._note(conn)
            return False
        now = time.monotonic()
        if self._settled is known and now < self._next:
            return False
        missing = [t.name for t in known if not t.local and follows(self._settings, t.name)]
        if missing and self._said.keys() >= set(missing) and now < self._next:
            return False
        self._settled, self._next = known, now + _AGAIN
        others = [
            s.name
            for s in tables.get_seq_list(conn, self._settings.queue_name)
            if not s.local
            and follows(self._settings, s.name)
            and tables.find_seq_oid(conn, s.name) is not None
        ]
        if not missing and not others:
            self._said = {}
            self._note(conn)
            return False
        self._said = {name: t for name, t in self._said.items() if name in {*missing, *others}}
        with Connections(
            name="londiste follow",
            lock_timeout=min(_LOCK, self._settings.lock_timeout),
            extra=self._settings.remote_extra_connstr,
        ) as sites:
            for name in [*missing, *others]:
                self._add(sites, name, sequence=name in others)
        self._note(conn)
        return True

    def _note(self, conn: Connection) -> None:
        """Stores the objects that could not be added, and removes all others from the list."""
        now = {str(name): text for name, text in self._said.items()}
        if now != self._noted:
            tables.set_follow_errors(conn, self._settings.queue_name, now)
            self._noted = now

    def _add(self, sites: Connections, name: TableName, *, sequence: bool) -> None:
        settings = self._settings
        try:
            if sequence:
                plan = sequences.plan_add(sites, settings.db, settings.queue_name, [escaped(name)])
            else:
                plan = add_table.plan(
                    sites,
                    settings.db,
                    settings.queue_name,
                    [name],
                    options(settings),
                    wanted=RegistrationFilter.of(settings),
                )
            for line in plan.notes:
                log.warning("added automatically: %s", line)
            execute(
                plan.steps, sites, lambda step: log.info("added automatically: %s", step.describe())
            )
            self._said.pop(name, None)
        except LondisteError as error:
            text = origin(error) + error.message
            self._failed(name, f"{text}; {error.hint}" if error.hint else text)

    def _failed(self, name: TableName, text: str) -> None:
        if self._said.get(name) != text:
            log.error("table %s: cannot add it automatically: %s", name, text)
        self._said[name] = text
