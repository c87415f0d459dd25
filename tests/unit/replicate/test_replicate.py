"""Pure parts of ``londiste replicate``: names, selection, lines, statements, the file."""

from __future__ import annotations

import shlex
import stat
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from londiste.cascade.commands.endpoint import Endpoint
from londiste.cli.setup import live_state
from londiste.cli.worker_once import waiting_for_tick
from londiste.copy.status import CopyLag, TableStatus
from londiste.db.connstr.locations import reach
from londiste.db.names import TableName
from londiste.errors import (
    BadOption,
    LondisteError,
    NodeUnreachable,
    StateError,
    TableChanged,
    UnknownTable,
)
from londiste.monitor.queues.model import Finding, Severity
from londiste.replicate import save
from londiste.replicate.asked import Asked
from londiste.replicate.created import drop_statements
from londiste.replicate.databases import (
    ReplicateSettings,
    Replication,
    clean,
    free_name,
    state_file,
    without_settings,
)
from londiste.replicate.held import Held
from londiste.replicate.setup import Selection
from londiste.replicate.state import NodeState, line, needs_tick, stop_waiting
from londiste.replication.patterns import matches
from londiste.replication.tablesync.stopped import remedy, stored

NAMES = [TableName("public", "a"), TableName("public", "log_1"), TableName('S "x"', "B c")]


def test_names_follow_from_any_database() -> None:
    assert clean('My "first" shop') == "my_first_shop"
    assert clean("日本") == "db"
    assert clean("x" * 100) == "x" * 40
    assert free_name("shop", {"shop", "shop_2"}) == "shop_3"


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        (Selection(), NAMES),
        (Selection(exclude=("public.log*",)), [NAMES[0], NAMES[2]]),
        (Selection(schemas=('S "x"',)), [NAMES[2]]),
        (Selection(patterns=("*",)), NAMES[:2]),
        (Selection(patterns=('S "x".B c', "a"), exclude=("a",)), [NAMES[2]]),
    ],
)
def test_tables_are_chosen(selection: Selection, chosen: list[TableName]) -> None:
    assert selection.choose(NAMES, "here") == chosen


def test_a_name_without_a_table_is_refused() -> None:
    with pytest.raises(UnknownTable, match="table b does not exist in here"):
        Selection(patterns=("b",)).choose(NAMES, "here")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (NodeState("a", True, 3, 3), "a: root, 3 tables"),
        (NodeState("b", False, 1, 1, 1, 0, 0.5), "b: in sync, 1 table"),
        (NodeState("b", False, 3, 1, 0, 0, 0.1), "b: 1 of 3 tables in sync"),
        (
            NodeState("b", False, 3, 1, 4, 700, 2.25),
            "b: 1 of 3 tables in sync; behind by 4 ticks, 700 events, 2.2 s",
        ),
        (NodeState("b", False, 3, 3, 2, 1, 2.25), "b: behind by 2 ticks, 1 event, 2.2 s; 3 tables"),
        (
            NodeState("b", False, 1, 1, 0, 0, 0.1, errors=("duplicate key",)),
            "b: not in sync; 1 table; error: duplicate key",
        ),
        (
            NodeState("b", False, 1, 1, 0, 0, 0.1, errors=("no; hint: londiste resync t",)),
            "b: not in sync; 1 table; error: no; hint: with the settings of b: londiste resync t",
        ),
        (
            NodeState("b", False, 1, 1, 0, 0, None, 3, 65.4, True),
            "b: about 3 events wait for a tick, the newest is 65 s old: no ticker runs; 1 table",
        ),
        (
            NodeState("b", False, 1, 1, 2, 5, 2.0, 1, 65.4),
            "b: behind by 2 ticks, 5 events, 2.0 s; about 1 event waits for a tick, the newest is"
            " 65 s old; 1 table",
        ),
    ],
)
def test_a_node_is_one_line(state: NodeState, words: str) -> None:
    assert line(state) == words


def test_in_sync_means_all_tables_no_event_and_no_error() -> None:
    assert NodeState("b", False, 1, 1, 1, 0, 0.5).in_sync
    assert NodeState("a", True, 3, 3).in_sync
    for other in (
        NodeState("b", False, 2, 1, 0, 0, 0.5),
        NodeState("b", False, 1, 1, 2, 0, 0.5),
        NodeState("b", False, 1, 1, 0, 1, 0.5),
        NodeState("b", False, 1, 1, None, None, None),
        # The source does not know its worker: how many events wait is unknown.
        NodeState("b", False, 1, 1, 0, None, None),
        NodeState("b", False, 1, 1, 0, 0, 0.5, errors=("broken",)),
        NodeState("b", False, 1, 1, 0, 0, None, 1, 65.0),
    ):
        assert not other.in_sync


def test_the_wait_ends_when_every_node_waits_for_an_operator() -> None:
    def copy(table: str, failed: bool, state: str = "in-copy") -> TableStatus:
        error = (
            stored("no key", "create one", StateError("no key"), 2) if failed else "no key; wait"
        )
        return TableStatus(table, state, error=error)

    def node(ok: int, *copies: TableStatus, paused: bool = False) -> NodeState:
        return NodeState(
            "b", False, 3, ok, 0, 0, copies=copies, errors=("e",), copies_paused=paused
        )

    root, synced = NodeState("a", True, 3, 3), NodeState("c", False, 3, 3, 0, 0)
    for going in (
        [synced],
        [node(2, copy("s.t", False))],
        # Another table is being copied, or another node gets in sync.
        [node(1, copy("s.t", True), copy("s.u", False))],
        [node(2, copy("s.t", True)), node(2, copy("s.t", False))],
    ):
        assert stop_waiting([root, *going], "again") is None
    for ended in (
        [synced, node(2, copy("s.t", True))],
        # The worker waits at the hand-over tick of this copy.
        [node(1, copy("s.t", True, "do-sync:7"), copy("s.u", False, "catching-up"))],
    ):
        error = stop_waiting([root, *ended], "again")
        assert error is not None and error.exit_code == 3
        assert error.message == "an operator has to continue the copy of table s.t to b"
        assert (error.detail, error.hint) == ("no key", "create one; then again")
    waits = Held("the worker of b", "b: halted at event 7 of s.t", "londiste events show")
    halted = stop_waiting([replace(node(3), held=(waits,))], "again")
    assert halted is not None and halted.hint == "londiste events show; then again"
    assert halted.detail == "b: halted at event 7 of s.t"


def test_tables_that_lack_changes_end_the_wait_when_nothing_else_goes_on() -> None:
    loss = Finding(Severity.CRITICAL, "renamed", "table s.t: it was renamed", "why", "rename it")
    losing = {"errors": (loss.what,), "losses": (loss,)}
    root = NodeState("a", True, 3, 3, **losing)
    synced = NodeState("b", False, 3, 3, 0, 0)
    lost = replace(synced, **losing)
    assert not root.in_sync and line(root) == "a: root, 3 tables; error: table s.t: it was renamed"
    for going in (replace(synced, ok=2), replace(lost, ok=2), replace(lost, events=4)):
        assert stop_waiting([root, going], "again") is None
    what = "the replication of tables of"
    error = stop_waiting([root, synced], "again")
    assert error is not None and error.message == f"an operator has to continue {what} a"
    assert error.detail == "a: table s.t: it was renamed: why"
    assert error.hint == "rename it; then again"
    # The worker stops at an event of such a table.
    stopped = replace(lost, events=4, errors=("no table", loss.what))
    error = stop_waiting([root, stopped], "again")
    assert error is not None and error.message.endswith(f"{what} a, {what} b")


def test_paused_copies_end_the_wait_when_no_other_table_goes_on() -> None:
    def node(*states: str | None) -> NodeState:
        copies = tuple(TableStatus(f"s.t{n}", state) for n, state in enumerate(states))
        count = len(copies)
        return NodeState("b", False, count, 0, 0, 0, copies=copies, copies_paused=True)

    error = stop_waiting([node(None, "in-copy")], "again")
    assert error is not None and error.hint == "londiste copy resume; then again"
    assert stop_waiting([node(None, "catching-up")], "again") is None
    # Without a tick the second one does not end, but the rows of the first come yet.
    assert not needs_tick(node("in-copy", "catching-up"))
    assert needs_tick(node("catching-up")) and not needs_tick(replace(node("ok"), ok=1))
    assert not needs_tick(replace(node("catching-up"), ticks=5))


@pytest.mark.parametrize(
    ("states", "waits"),
    [
        ([None], True),
        (["wanna-sync:8", None], True),
        (["wanna-sync:7"], False),
        (["ok"], False),
        ([], False),
        *(([None, other], False) for other in ("in-copy", "do-sync:7", "catching-up")),
    ],
)
def test_copies_that_only_a_tick_of_the_provider_continues(
    states: list[str | None], waits: bool
) -> None:
    copies = [TableStatus(f"s.t{n}", state) for n, state in enumerate(states)]
    assert bool(waiting_for_tick(copies, 7)) is waits
    for ticks in (0, 1):
        replays = TableStatus("s.u", "catching-up", behind=CopyLag(ticks, None))
        tables = waiting_for_tick([TableStatus("s.t", "ok"), replays], 7)
        assert tables == ([] if ticks else ["s.u"])


def test_an_error_stops_a_copy_if_it_comes_again_and_does_not_pass() -> None:
    def stops(error: LondisteError, times: int) -> bool:
        return remedy(stored("what", "do it", error, times)) == ("what", "do it")

    assert stops(StateError("x"), 2)
    assert not stops(StateError("x"), 1)
    assert not stops(NodeUnreachable("x"), 9) and not stops(TableChanged("x"), 9)


def test_created_objects_are_dropped_tables_first_and_schemas_last() -> None:
    found = [("schema", "s"), ("type", "s.t"), ("table", "s.b"), ("table", "s.a")]
    assert drop_statements(found) == [
        "drop table if exists s.a, s.b",
        "drop type if exists s.t",
        "drop schema if exists s",
    ]


def _replication() -> Replication:
    source, target = (
        Endpoint(name, f"dbname={name} password=secret", f"dbname={name}", f"replicate_{name}")
        for name in ("a", "b")
    )
    return Replication(ReplicateSettings(), "q", source, (target,))


def test_the_file_selects_the_tables_of_a_schema_whose_name_looks_like_a_pattern() -> None:
    selection = Selection(patterns=(r"*.a\*", "s?.b*"), schemas=("s*",))
    include = tomllib.loads(save.text(_replication(), selection))["tables"]["include"]
    assert include == [r"s\*.a\*", r"s\*.b*"]
    assert matches(TableName("s*", "a*"), include)
    assert not matches(TableName("sx", "a*"), include)


def test_the_file_has_nodes_and_tables_and_no_password(tmp_path: Path) -> None:
    consent = save.text(_replication(), Selection(allow_code=True))
    assert tomllib.loads(consent)["tables"] == {"include": ["*.*"], "allow_code": True}
    content = save.text(_replication(), Selection(exclude=("x",), where="n = 'ä\"'"))
    assert "secret" not in content
    assert tomllib.loads(content) == {
        "queue": {"name": "q"},
        "nodes": {
            "a": {"db": "dbname=a", "role": "root", "worker": "replicate_a"},
            "b": {"db": "dbname=b", "role": "leaf", "provider": "a", "worker": "replicate_b"},
        },
        "tables": {"include": ["*.*"], "exclude": ["x"], "*.*": {"where": "n = 'ä\"'"}},
        "worker": {"engine": "local"},
    }
    odd = "x = '\U0001f600\x7f\\'"
    assert tomllib.loads(save.text(_replication(), Selection(where=odd)))["tables"]["*.*"] == {
        "where": odd
    }
    path = tmp_path / "londiste.toml"
    save.write(path, content)
    save.write(path, content)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(BadOption, match="another content"):
        save.write(path, content + "#")


def test_one_place_for_the_same_databases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    settings = ReplicateSettings()
    one = state_file(settings, "host=a dbname=x password=1", "postgresql://b/y", "pid")
    assert one == state_file(settings, "dbname=x host=a", "host=b dbname=y user=me", "pid")
    assert one != state_file(settings, "dbname=x host=a", "host=c dbname=y", "pid")
    assert one.parent == tmp_path / "londiste"


@pytest.mark.parametrize(
    ("selection", "include"),
    [
        (Selection(schemas=("a", "b")), ["a.*", "b.*"]),
        (Selection(patterns=("t", "a.x*")), ["t", "a.x*"]),
        (
            Selection(patterns=("*.log", "a.x*", "c.y"), schemas=("a", "b")),
            ["a.log", "b.log", "a.x*"],
        ),
    ],
)
def test_the_file_has_no_table_that_was_not_selected(
    selection: Selection, include: list[str]
) -> None:
    content = tomllib.loads(save.text(_replication(), selection))
    assert content["tables"]["include"] == include


def test_a_file_that_is_no_text_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "londiste.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(BadOption, match="another content"):
        save.write(path, "x")
    with pytest.raises(BadOption, match="Not a directory"):
        save.require_free(path / "x", "x")


def test_the_command_to_continue_repeats_tables_and_rows_but_no_password() -> None:
    chosen = Selection(("a*", "S x.y"), ("b",), ("s",), "id > 3", True)
    asked = Asked("dbname=x host=a password=geheim", ("service=b", "dbname='c d'"), "q", chosen)
    assert shlex.split(asked.repeated("--detach")) == [
        *("londiste", "replicate", "dbname=x host=a", "service=b", "a*", "S x.y"),
        *("--exclude", "b", "--schema", "s", "--where", "id > 3", "--allow-code"),
        *("--also", "dbname='c d'", "--queue", "q", "--detach"),
    ]
    # About the replication as a whole: no tables.
    assert shlex.split(asked.command("--status"))[4:] == [
        *("--also", "dbname='c d'", "--queue", "q", "--status")
    ]
    assert asked.has_passwords and not Asked("host=a", ("service=b",), None).has_passwords


def test_the_last_lines_say_how_other_commands_get_their_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = (
        "settings of other commands: londiste replicate service=a service=b --save FILE,"
        " then -c FILE --node NAME; unless another process replicates, it stays until Ctrl-C"
    )
    for saved in (False, True):
        live_state.say_how_to_continue(Asked("service=a", ("service=b",), None, saved=saved), "end")
        assert (line in capsys.readouterr().err.splitlines()) is not saved


def test_a_refused_location_is_replaced_by_a_command_that_needs_no_settings() -> None:
    source = Endpoint("shop", "service=a", "service=a", "w")
    for node, location in (("shop", "service=a"), ("other", "CONNECTION")):
        with (
            pytest.raises(
                StateError, match="has host: the secrets of a service are for"
            ) as refused,
            without_settings(source, "q"),
        ):
            reach("service=a host=127.0.0.1", "", node=node)
        words = ["londiste", "--set=db=service=a", "--set=queue_name=q", "move-node", node]
        assert shlex.split(refused.value.hint.partition(": ")[2]) == [*words, location]
