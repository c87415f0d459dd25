"""Rows of one queue that the root of another one forwards, and what must not run in a circle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from londiste.cascade.commands.create_node import (
    NewNode,
    create_branch,
    create_leaf,
    create_root,
)
from londiste.cascade.model import NodeType
from londiste.monitor.doctor.examine import examine
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute
from londiste.replication import replicated_rows
from tests.fixtures.cascade import Answer, CommandLine, Nodes
from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for


class Chain:
    """Databases with a table t: z1 -> z2 by queue p, and z2 is the root of queue q."""

    def __init__(self, new_database: Callable[..., Database], londiste: CommandLine) -> None:
        self._londiste = londiste
        self.z1, self.z2 = new_database(pgq=True), new_database(pgq=True)
        for place in (self.z1, self.z2):
            place.execute("create table t (id int primary key)")
        self.node("p", "z1", self.z1)
        self.node("p", "z2", self.z2, self.z1)
        self.node("q", "z2", self.z2)
        self.ok("p", self.z1, "add-table", "t")

    def node(
        self,
        queue: str,
        name: str,
        place: Database,
        above: Database | None = None,
        kind: NodeType = NodeType.LEAF,
    ) -> None:
        kind = kind if above else NodeType.ROOT
        new = NewNode(queue, kind, name, place.dsn, place.dsn, f"{queue}_{name}")
        make = create_leaf if kind is NodeType.LEAF else create_branch
        with Connections(name="test") as sites:
            execute(make(sites, new, above.dsn) if above else create_root(sites, new), sites)

    def run(self, queue: str, place: Database, *words: str) -> Answer:
        return self._londiste(place, "--set", f"queue_name={queue}", *words)

    def ok(self, queue: str, place: Database, *words: str) -> Answer:
        answer = self.run(queue, place, *words)
        assert answer.code == 0, answer.err
        return answer

    def found(self, *command: str) -> list[dict[str, Any]]:
        """The findings about rows that z2 does not capture."""
        found: list[dict[str, Any]] = self.run("q", self.z2, *command, "--json").json["findings"]
        return [one for one in found if one["kind"] in {"second-queue", "native-subscription"}]

    def captures_replicated_rows(self, table: str = "t") -> bool:
        """Whether a row that a worker writes into a table of z2 is in queue q."""
        with self.z2.connect(autocommit=True) as conn:
            conn.execute("set session_replication_role = replica")
            conn.execute(f"truncate public.{table}")
            before = self.events()
            conn.execute(f"insert into public.{table} values (1)")
        return self.events() > before

    def events(self) -> int:
        return int(
            self.z2.value("select count(*) from pgq.event_template where ev_extra1 ~ '^public'")
        )


@pytest.fixture
def chain(new_database: Callable[..., Database], londiste: CommandLine) -> Chain:
    return Chain(new_database, londiste)


def test_a_capture_that_is_silent_about_rows_of_another_queue_is_named_until_it_fires(
    chain: Chain,
) -> None:
    chain.z2.execute("create table alone (id int primary key)")
    chain.ok("q", chain.z2, "add-table", "t", "alone")
    said = chain.ok("p", chain.z2, "add-table", "t", "--expect-sync").err
    assert "are not captured for queue q" in said
    assert "londiste triggers --always public.t" in said
    assert not chain.captures_replicated_rows()
    (one,) = chain.found("check")
    assert (one["kind"], one["severity"]) == ("second-queue", "critical")
    assert [each["kind"] for each in chain.found("status", "--check")] == ["second-queue"]
    with chain.z2.connect(autocommit=True) as conn:
        conn.execute("set role pgq_reader")
        assert replicated_rows.silent(conn, "q") == [("second-queue", "public.t", "p")]
    of_doctor = [each for each in examine(chain.z2.dsn) if each.kind == "second-queue"]
    assert [each.object for each in of_doctor] == ["public.t"]
    assert "triggers --always public.t" in of_doctor[0].do
    first = one["do"].partition(";")[0].removeprefix("londiste ")
    assert first == "triggers --always public.t"
    assert "also for replicated rows" in chain.ok("q", chain.z2, *first.split(), "--dry-run").out
    assert "alone" not in chain.ok("q", chain.z2, "triggers", "--always", "--dry-run").out
    chain.ok("q", chain.z2, *first.split())
    assert chain.captures_replicated_rows()
    assert chain.found("check") == []
    assert chain.run("p", chain.z2, "triggers", "--always").code != 0
    # Added while the other queue fills the table, it fires at once.
    chain.ok("q", chain.z2, "remove-table", "t")
    said = chain.ok("q", chain.z2, "add-table", "t").err
    assert "its capture also fires for rows that queue p brings" in said
    assert chain.captures_replicated_rows()
    assert chain.found("status", "--check") == []


def test_rows_that_come_back_to_their_origin_are_not_captured_again(chain: Chain) -> None:
    chain.node("q", "z1", chain.z1, chain.z2)
    for queue in "pq":
        words = ("--expect-sync", "--no-triggers") if queue == "p" else ()
        chain.ok(queue, chain.z2, "add-table", "t", *words)
    words = ("add-table", "t", "--expect-sync", "--no-triggers")
    chain.z2.execute("select pgq.force_tick('q'), pgq.ticker('q')")
    refused = chain.run("q", chain.z1, *words)
    assert refused.code != 0
    assert "would come back by queue q" in refused.err
    chain.z2.execute(refused.err.partition("in the database of z2: ")[2].rpartition("; then")[0])
    chain.ok("q", chain.z1, *words)
    # Both captures fire for applications only: each node gets a change once.
    assert chain.found("check") == []
    refused = chain.run("q", chain.z2, "triggers", "--always", "t")
    assert "rows that queue p brings come from queue q, too" in refused.err
    chain.ok("q", chain.z2, "remove-table", "t")
    chain.ok("q", chain.z2, "add-table", "t")
    assert not chain.captures_replicated_rows()


def test_another_cascade_of_the_same_queue_name_closes_no_circle(
    chain: Chain, new_database: Callable[..., Database]
) -> None:
    # x0 -> z1 by a queue q of its own, z1 -> z2 by queue p, and z2 is the root of another queue q.
    x0 = new_database(pgq=True)
    x0.execute("create table t (id int primary key)")
    chain.node("q", "z2", x0)
    chain.node("q", "z1", chain.z1, x0)
    chain.ok("q", x0, "add-table", "t")
    x0.execute("select pgq.force_tick('q'), pgq.ticker('q')")
    chain.ok("q", chain.z1, "add-table", "t", "--expect-sync", "--no-triggers")
    chain.ok("p", chain.z1, "triggers", "--always", "t")
    chain.ok("q", chain.z2, "add-table", "t")
    said = chain.ok("p", chain.z2, "add-table", "t", "--expect-sync", "--no-triggers").err
    assert "londiste triggers --always public.t" in said
    chain.ok("q", chain.z2, "triggers", "--always", "t")
    assert chain.captures_replicated_rows()
    chain.ok("q", chain.z2, "remove-table", "t")
    assert "its capture also fires" in chain.ok("q", chain.z2, "add-table", "t").err


def test_a_new_root_that_lacks_the_queue_of_another_one_is_refused(
    chain: Chain, new_database: Callable[..., Database]
) -> None:
    chain.ok("p", chain.z2, "add-table", "t", "--expect-sync", "--no-triggers")
    chain.ok("q", chain.z2, "add-table", "t")
    z3 = new_database(pgq=True)
    z3.execute("create table t (id int primary key)")
    chain.node("q", "z3", z3, chain.z2, NodeType.BRANCH)
    chain.z2.execute("select pgq.force_tick('q'), pgq.ticker('q')")
    chain.ok("q", z3, "add-table", "t", "--expect-sync")
    words = ("switchover", "--to", "z3", "--dry-run")
    refused = chain.run("q", chain.z2, *words)
    assert refused.code != 0
    assert "queue p fills table public.t of z2, and not of z3" in refused.err
    assert "queue p on z2: londiste remove-table public.t" in refused.err
    assert "fills table public.t of z2" in chain.ok("q", chain.z2, *words, "--allow-data-loss").err
    # The old root is a branch then, and its capture still fires for the rows.
    with chain.z2.connect() as conn:
        conn.execute("update pgq_node.node_info set node_type = 'branch' where queue_name = 'q'")
        conn.commit()
        (one,) = chain.found("check")
        assert one["do"] == (
            "londiste switchover --to z2; then on the nodes below: londiste resync public.t"
        )
        assert [each["kind"] for each in chain.found("status", "--check")] == ["second-queue"]
        of_doctor = [each for each in examine(chain.z2.dsn) if each.kind == "second-queue"]
        assert [each.object for each in of_doctor] == ["public.t"]
        conn.execute("update pgq_node.node_info set node_type = 'root' where queue_name = 'q'")
        conn.commit()
    # A leaf of the other queue brings the rows to the new root, too.
    chain.node("p", "z3", z3, chain.z1)
    assert chain.run("q", chain.z2, *words).code != 0
    chain.z1.execute("select pgq.force_tick('p'), pgq.ticker('p')")
    chain.ok("p", z3, "add-table", "t", "--expect-sync")
    chain.ok("q", chain.z2, *words)


def test_partitions_and_their_partitioned_table_are_the_same_rows(chain: Chain) -> None:
    # One queue fills the partition, the other captures the partitioned table; and the reverse.
    pairs = {"above_1": "above", "below": "below_1"}
    for place in (chain.z1, chain.z2):
        for name in ("above", "below"):
            place.execute(
                f"create table {name} (id int primary key) partition by range (id);"
                f" create table {name}_1 partition of {name} for values from (0) to (9)"
            )
    chain.ok("q", chain.z2, "add-table", *pairs.values())
    chain.ok("p", chain.z1, "add-table", *pairs)
    chain.z1.execute("select pgq.force_tick('p'), pgq.ticker('p')")
    said = chain.ok("p", chain.z2, "add-table", *pairs, "--expect-sync", "--no-triggers").err
    for table in pairs.values():
        assert f"londiste triggers --always public.{table}" in said
    found = chain.found("check")
    assert {one["what"].split()[3] for one in found} == {"public.above", "public.below_1"}
    chain.ok("q", chain.z2, "triggers", "--always")
    assert chain.found("check") == []
    for filled in pairs:
        assert chain.captures_replicated_rows(filled), filled
    # Added while the other queue fills the rows, they fire at once.
    chain.ok("q", chain.z2, "remove-table", *pairs.values())
    said = chain.ok("q", chain.z2, "add-table", *pairs.values()).err
    for table in pairs.values():
        assert f"table public.{table}: its capture also fires" in said
    for filled in pairs:
        assert chain.captures_replicated_rows(filled), filled


def test_rows_of_a_native_subscription_are_captured_by_row(
    new_database: Callable[..., Database], nodes_of: Nodes, londiste: CommandLine
) -> None:
    root, source = nodes_of.root(), new_database()
    for place in (source, root.db):
        place.execute("create table t (id int primary key, v text)")
    assert londiste(root.db, "add-table", "t").code == 0
    source.execute("create publication native_rows for table t")
    source.value("select pg_create_logical_replication_slot('native_rows', 'pgoutput')")
    root.db.execute(
        f"create subscription native_rows connection '{source.dsn}' publication native_rows with"
        " (create_slot = false, copy_data = false)"
    )
    try:
        answer = londiste(root.db, "check", "--json").json["findings"]
        (one,) = [each for each in answer if each["kind"] == "native-subscription"]
        # Triggers for statements do not fire, whatever their mode is.
        root.db.value("select londiste.fire_always('q', 't')")
        status = londiste(root.db, "status", "--check", "--json").json["findings"]
        assert "native-subscription" in {each["kind"] for each in status}
        first = one["do"].partition(";")[0].removeprefix("londiste ")
        assert londiste(root.db, *first.split()).code == 0
        answer = londiste(root.db, "check", "--json").json["findings"]
        assert "native-subscription" not in {each["kind"] for each in answer}
        source.execute("insert into t values (1, 'a')")
        wait_for(
            lambda: root.db.value(
                "select count(*) = 1 from pgq.event_template where ev_extra1 = 'public.t'"
            ),
            what="the event of a row of the subscription",
        )
        # Added while the subscription fills the table, it names the command at once.
        assert londiste(root.db, "remove-table", "t").code == 0
        said = londiste(root.db, "add-table", "t").err
        assert "rows that subscription native_rows of PostgreSQL brings are not captured" in said
        assert "londiste triggers --always public.t" in said
    finally:
        root.db.execute("drop subscription native_rows")
