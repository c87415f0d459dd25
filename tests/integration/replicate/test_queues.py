"""``replicate --queues``: related tables, names of queues, and what is refused; no daemon runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.names import TableName
from londiste.orchestration.connections import Connections
from londiste.replicate import queue_list, remove, setup
from londiste.replicate.databases import ReplicateSettings, Replication
from londiste.replicate.setup import Selection
from tests.fixtures.cluster import Database
from tests.support.replicating import CATALOG
from tests.support.suite.slow import only

#: Pairs of tables with a foreign key, and one table without relatives.
SCHEMA = """
create table a (id int primary key);
create table a_child (id int primary key, a int references a);
create table b (id int primary key);
create table b_child (id int primary key, b int references b);
insert into a select generate_series(1, 10);
"""
QUEUE = "shop"
QUEUES = "select table_name, queue_name from londiste.table_info where local order by 1"


@pytest.fixture
def pair(new_database: Callable[..., Database]) -> Iterator[list[Database]]:
    """A source with two groups of tables, and an empty target."""
    found = [new_database(pgq=False) for _ in range(2)]
    found[0].execute(SCHEMA)
    yield found


def _set_up(
    pair: list[Database], count: int, *patterns: str, steps: int | None = None
) -> tuple[list[Replication], list[str]]:
    """Sets up as the command does; the queues that are used, and the warnings.

    steps -- ends after these, as if interrupted.
    """
    source, target = (one.dsn for one in pair)
    texts: list[str] = []
    found = queue_list.identify_all(ReplicateSettings(queue_name=QUEUE), source, [target], count)
    selection = Selection(patterns)
    with found[0].sites() as sites:
        names = setup.chosen(sites.at(source), source, [one.queue for one in found], selection)
        shares = queue_list.shares(sites, found, selection, names, texts.append)

    done: list[object] = []

    def report(step: object) -> None:
        done.append(step)
        if len(done) == steps:
            raise KeyboardInterrupt

    try:
        setup.set_up(shares, report, texts.append)
    except KeyboardInterrupt:
        assert steps is not None
    return [one.replication for one in shares], texts


def _places(database: Database) -> dict[str, str]:
    """The number of the queue of each table."""
    return {
        table.removeprefix("public."): queue.removeprefix(QUEUE)
        for table, queue in database.execute(QUEUES)
    }


def test_related_tables_are_found_whatever_relates_them(
    new_database: Callable[..., Database],
) -> None:
    database = new_database(pgq=False)
    database.execute(
        "create table parent (id int primary key);"
        " create table child (id int primary key references parent);"
        " create table heir () inherits (parent);"
        " create table log (id int);"
        " create rule r as on insert to child do also insert into log values (new.id);"
        " create table counted (id serial);"
        " create table counting (id int default nextval('counted_id_seq'));"
        " create table whole (id int primary key, p int references parent) partition by range (id);"
        " create table half partition of whole for values from (0) to (9) partition by range (id);"
        " create table leaf partition of half for values from (0) to (9);"
        " create table of_leaf (id int references leaf);"
        # A view only reads, and a table may refer to itself.
        " create view v as select 1 from parent, counted;"
        " create table self (id int primary key, s int references self)"
    )
    with Connections(name="test") as sites:
        found = {
            (frozenset((one.one.name, one.other.name)), one.kind)
            for one in setup.related(sites.at(database.dsn))
        }
    assert found == {
        (frozenset(names.split()), kind)
        for kind, pairs in {
            "foreign key": "parent child;whole parent;half parent;leaf parent;of_leaf leaf;"
            "of_leaf whole",
            "inheritance": "heir parent",
            "partition": "half whole;leaf half;leaf whole",
            "rule": "child log",
            "sequence": "counted counting",
        }.items()
        for names in pairs.split(";")
    }


def test_related_tables_are_in_one_queue_and_new_ones_get_to_their_relatives(
    pair: list[Database],
) -> None:
    source, target = pair
    found, texts = _set_up(pair, 2)
    assert [one.queue for one in found] == ["shop", "shop_2"] and not texts
    places = _places(source)
    assert places["a"] == places["a_child"] != places["b"] == places["b_child"]
    assert set(places.values()) == {"", "_2"} and _places(target) == places
    # Without its number the command finds both queues.
    source.execute(
        "create table a_more (id int primary key, a int references a);"
        " create table b_more (id int primary key, b int references b);"
        " create table other (id int primary key, v text);"
    )
    found, texts = _set_up(pair, 1)
    assert len(found) == 2 and not texts
    more = _places(source)
    assert places.items() < more.items() and set(more.values()) == {"", "_2"}
    assert more["a_more"] == places["a"] and more["b_more"] == places["b"]
    # A third queue gets only what is in none.
    source.execute("create table third (id int primary key)")
    found, texts = _set_up(pair, 3)
    assert [one.queue for one in found] == ["shop", "shop_2", "shop_3"] and not texts
    assert _places(source) == {**more, "third": "_3"} == _places(target)


def test_a_key_of_the_target_relates_tables_too(pair: list[Database]) -> None:
    source, target = pair
    target.execute(
        "create table a (id int primary key);"
        " create table b (id int primary key, a int references a)"
    )
    source.execute("alter table b add a int")
    found, _ = _set_up(pair, 2)
    assert len(found) == 1 and set(_places(source).values()) == {""}


def test_a_table_between_two_queues_is_not_added_and_keys_between_them_are_named(
    pair: list[Database], capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = pair
    _set_up(pair, 2)
    before = _places(source)
    source.execute(
        "create table between_them (a int references a, b int references b, id int primary key)"
    )
    found, (text,) = _set_up(pair, 1)
    assert "table public.between_them is not added: it is related to tables of queues" in text
    assert _places(source) == before and len(found) == 2
    # Nothing else was asked for.
    capsys.readouterr()
    assert (
        run(
            cli,
            ["replicate", source.dsn, target.dsn, "between_them", "--queue", QUEUE, "--dry-run"],
        )
        == 3
    )
    printed = capsys.readouterr().err
    assert "error: table public.between_them is related to tables of queues" in printed
    assert "nothing was changed" in printed and "--exclude public.between_them" in printed
    # A key that was added since ends nothing.
    source.execute("drop table between_them; alter table b add a int references a")
    _, (text,) = _set_up(pair, 1)
    assert "public.b and public.a (foreign key)" in text and "without a common order" in text


def test_the_first_set_up_counts_what_it_does_not_create(pair: list[Database]) -> None:
    source, target = pair
    source.execute(
        "create view v as select * from a; create view w as select 1; create schema s;"
        " create materialized view s.m as select * from a;"
        " create function f(int) returns int language sql return 1;"
        " create function f(text) returns int language sql return 1"
    )
    target.execute("create view w as select 1")
    _, texts = _set_up(pair, 1)
    assert [text.partition("; ")[0] for text in texts] == [
        "not created: 2 functions, 1 materialized view, 1 view"
    ]
    # Nothing is set up any more; and who names tables wants no more than these.
    assert not _set_up(pair, 1)[1]
    (replication,), _ = _set_up(pair, 1)
    with replication.sites() as sites:
        assert not setup.not_created(sites, replication, Selection(("a",)))
        only = setup.not_created(sites, replication, Selection(schemas=("s",)))
    assert only.startswith("not created: 1 materialized view; ")


def test_a_queue_of_another_command_is_no_part_of_the_replication(pair: list[Database]) -> None:
    source, target = pair
    source.execute("create table solo (id int primary key)")
    other = queue_list.identify_all(
        ReplicateSettings(queue_name="shop_2"), source.dsn, [target.dsn]
    )
    share = setup.Share(other[0], Selection(("solo",)), (TableName("public", "solo"),))
    setup.set_up([share], lambda step: None, pytest.fail)
    found, _ = _set_up(pair, 2, "a*", "b*")
    assert [one.queue for one in found] == ["shop", "shop_3"]
    assert {
        one.queue
        for one in queue_list.identify_all(
            ReplicateSettings(queue_name=QUEUE), source.dsn, [target.dsn]
        )
    } == {"shop", "shop_3"}
    with found[0].sites() as sites:
        remove.remove(
            sites,
            found,
            drop_tables=False,
            quiet=lambda: None,
            report=lambda step: None,
            warn=pytest.fail,
        )
    assert source.execute("select queue_name from pgq_node.node_info") == [("shop_2",)]
    assert _places(target) == {"solo": "_2"}


@pytest.mark.parametrize("steps", only(range(1, 12), 6))
def test_an_interrupted_set_up_continues_and_an_interrupted_removal_too(
    pair: list[Database], capsys: pytest.CaptureFixture[str], steps: int
) -> None:
    source, target = pair
    before = [one.execute(CATALOG) for one in pair]
    _set_up(pair, 2, steps=steps)
    found, texts = _set_up(pair, 2)
    assert len(found) == 2 and not texts
    places = _places(source)
    assert places["a"] == places["a_child"] != places["b"] == places["b_child"]
    assert _places(target) == places
    call = ["replicate", source.dsn, target.dsn, "--queue", QUEUE, "--remove", "--drop-tables"]
    done: list[object] = []

    def report(step: object) -> None:
        done.append(step)
        if len(done) == steps:
            raise KeyboardInterrupt

    again = queue_list.identify_all(ReplicateSettings(queue_name=QUEUE), source.dsn, [target.dsn])
    assert len(again) == 2
    with again[0].sites() as sites, pytest.raises(KeyboardInterrupt):
        remove.remove(
            sites,
            again,
            drop_tables=True,
            quiet=lambda: None,
            report=report,
            warn=pytest.fail,
        )
        raise KeyboardInterrupt
    capsys.readouterr()
    # The first step drops tables, the last ones the SQL of a database after the other.
    if 1 < len(done) < 9:
        assert run(cli, [*call[:5], "--status"]) == 3, capsys.readouterr()
        assert "--remove" in capsys.readouterr().err
    assert run(cli, call) == 0
    assert [one.execute(CATALOG) for one in pair] == before


def test_one_of_two_targets_is_removed_from_both_queues(
    new_database: Callable[..., Database], capsys: pytest.CaptureFixture[str]
) -> None:
    source, first, second = (new_database(pgq=False) for _ in range(3))
    source.execute(SCHEMA)
    _set_up([source, first], 2)
    # The second one gets the tables of a queue that it needs, and always the first queue.
    _set_up([source, second], 1, "b*")
    places = _places(source)
    assert _places(second) == {name: places[name] for name in ("b", "b_child")}
    nodes = "select queue_name from pgq_node.node_info order by 1"
    assert second.execute(nodes) == [(q,) for q in sorted({"shop", "shop" + places["b"]})]
    capsys.readouterr()
    remove_it = ["--queue", QUEUE, "--remove"]
    call = ["replicate", source.dsn, second.dsn, *remove_it]
    assert run(cli, [*call, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "drop the node" in shown and f"{source.name}: remove the SQL" not in shown
    assert run(cli, call) == 0
    assert f"kept, {first.name} read" in capsys.readouterr().err
    assert second.value("select to_regnamespace('pgq')") is None
    assert len(_places(first)) == 4
    assert run(cli, ["replicate", source.dsn, first.dsn, *remove_it]) == 0
    assert source.value("select to_regnamespace('pgq')") is None
    assert first.value("select to_regnamespace('pgq')") is None
