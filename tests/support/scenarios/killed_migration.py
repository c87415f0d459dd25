"""A migration whose commands and daemons can be killed and repeated."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fixtures.cluster import Database
from tests.support.scenarios import quick_cascade
from tests.support.scenarios.forks import Fork, Forks
from tests.support.scenarios.harness import quoted
from tests.support.scenarios.processes import Processes
from tests.support.waiting import wait_for

SCHEMA = (
    quick_cascade.SCHEMA
    + """;
create table public.kept (id serial primary key, v text);
insert into public.kept (v) select 'x' from generate_series(1, 3000);
create table public.keyless (a int, b text);
insert into public.keyless select g % 7, 'y' from generate_series(1, 100) g;
create materialized view public.counted as select count(*) from public.kept;
"""
)

#: Seconds for anything to happen: generous, for a busy machine.
LIMIT = 180.0

#: How a database stands while it is part of a move, and when it is not any more.
STANDS = (
    *quick_cascade.DIGEST,
    "select 'table', table_name, merge_state, local from londiste.table_info order by 2",
    "select 'sequence', seq_name, local from londiste.seq_info order by 2",
)

ALWAYS = (
    "select 'schema', nspname, obj_description(oid, 'pg_namespace') from pg_namespace"
    " where nspname !~ '^pg_(toast|temp)' order by 2",
    "select 'relation', relname, relkind::text from pg_class"
    " where relnamespace = 'public'::regnamespace order by 2",
    "select 'trigger', tgrelid::regclass::text, tgname, tgenabled::text from pg_trigger t"
    " join pg_class c on c.oid = t.tgrelid and c.relnamespace = 'public'::regnamespace"
    " where not tgisinternal order by 2, 3",
)

NOTES = "select count(*) from pgq_node.operation"

CAPTURED = (
    "select exists (select from pg_trigger where tgrelid = to_regclass('public.written')"
    " and not tgisinternal)"
)


@dataclass(frozen=True)
class Command:
    """One command of a move.

    before -- what was done when it begins.
    roots -- who takes writes, in its order.
    phase -- of the move, in the end.
    stays -- it does not end by itself.
    """

    argv: tuple[str, ...]
    before: tuple[tuple[str, ...], ...]
    roots: tuple[str, ...]
    phase: str
    stays: bool = False


IN_STEP = ("start", "--until-ready")

SWITCH, BACK = ("switch", "--block", "60"), ("back", "--block", "60")
COMMANDS = {
    "start": Command(IN_STEP, (), ("old",), "in step"),
    "run": Command(("run", *SWITCH[1:], "--switch"), (), ("old", "new"), "switched", True),
    "switch": Command(SWITCH, (IN_STEP,), ("old", "new"), "switched"),
    "back": Command(BACK, (IN_STEP, SWITCH), ("new", "old"), "in step"),
    "finish": Command(("finish",), (IN_STEP, SWITCH), ("new",), "not begun"),
    "abandon": Command(("finish", "--abandon"), (IN_STEP,), ("old",), "not begun"),
}


@dataclass
class Killed:
    """An old database and a new one that are set back to a beginning in a moment."""

    directory: Path
    databases: dict[str, Database]
    saved: dict[tuple[tuple[str, ...], ...], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.processes = Processes(self.directory, {"LONDISTE_TRACEBACK": "1"})
        self.forks = Forks(self.processes)
        self.mark = self.directory / "crashed"
        keys = {
            "from_db": quoted(self.databases["old"].dsn),
            "to_db": quoted(self.databases["new"].dsn),
            "poll_interval": "0.1",
            "max_retry_delay": "0.3",
        }
        self.config = self.directory / "move.toml"
        self.config.write_text(
            "[migrate]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
        )
        self.config.chmod(0o600)

    def begin(self, *args: str, **env: str) -> Fork:
        """``londiste migrate ARGS``; returns at once."""
        if "LONDISTE_CRASH" in env:
            # One that goes on without it would stop once more.
            self.mark.unlink(missing_ok=True)
        return self.forks.start(
            self.config, "migrate", *args, LONDISTE_CRASH_MARK=str(self.mark), **env
        )

    def do(self, *args: str) -> Fork:
        """The same to its good end."""
        fork = self.begin(*args)
        assert fork.wait(LIMIT) == 0, str(fork)
        return fork

    def status(self) -> dict[str, Any]:
        """``londiste migrate status``."""
        found: dict[str, Any] = json.loads(self.do("status", "--json").out)
        return found

    def set_back(self, before: tuple[tuple[str, ...], ...]) -> None:
        """Both databases as they are after some commands."""
        if before not in self.saved:
            if before:
                self.set_back(before[:-1])
                self.do(*before[-1])
            self._alone()
            self.saved[before] = f"saved{len(self.saved)}"
            for database in self.databases.values():
                database.clone(f"{database.name}_{self.saved[before]}")
            return
        # What a test says when it fails is of its last attempt.
        for path in self.directory.glob("fork*"):
            path.unlink()
        for database in self.databases.values():
            database.cluster.drop_database(database.name)
            database.cluster.create_database(
                database.name, template=f"{database.name}_{self.saved[before]}"
            )

    def _alone(self) -> None:
        def sessions() -> int:
            found = self.databases.values()
            return sum(int(one.value(quick_cascade.SESSIONS)) for one in found)

        wait_for(lambda: not sessions(), timeout=LIMIT, what="the end of all sessions")

    def stands(self) -> dict[str, list[Any]]:
        """How both databases stand, without what only passes."""
        found = {}
        for name, database in self.databases.items():
            part_of_it = database.value("select to_regnamespace('pgq') is not null")
            parts = (*ALWAYS, *(STANDS if part_of_it else ()))
            found[name] = [row for part in parts for row in database.execute(part)]
        return found

    def close(self) -> None:
        self.forks.close()
        self.processes.close()
        for database in self.databases.values():
            for saved in self.saved.values():
                database.cluster.drop_database(f"{database.name}_{saved}")
            database.drop()
