"""Decision of ``londiste plan``: a file and a state give ordered actions, with their numbers."""

from __future__ import annotations

import tomllib
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from londiste.cascade.model import NodeType
from londiste.cascade.switching.operation_log import Operation, OperationKind
from londiste.cascadefile.action import Action, Kind
from londiste.cascadefile.decide import CascadeState, NodeState, TableState, decide
from londiste.cascadefile.export import Exported, text
from londiste.cascadefile.wanted import Rule, wanted
from londiste.db.names import TableName
from londiste.errors import BadOption, StateError
from londiste.settings.cascade_file import CascadeFile, parse
from londiste.settings.cascade_keys import TablesSection

A, B, C = (TableName("public", name) for name in "abc")
#: Tables of the root's database, and their bytes.
SIZES = {A: 100_000_000, B: 2_000_000, C: 50}
ROLES = {"n1": None, "n2": "n1", "n3": "n2", "n4": "n2", "n5": "n1"}


def file_of(
    providers: Mapping[str, str | None] = ROLES, more: str = '[tables]\ninclude = ["*"]\n'
) -> CascadeFile:
    text = '[queue]\nname = "q"\n'
    for name, provider in providers.items():
        role = "root" if provider is None else "branch" if name in "n1 n2 n5" else "leaf"
        text += f'[nodes.{name}]\ndb = "dbname={name}"\nrole = "{role}"\n'
        text += f'provider = "{provider}"\n' if provider else ""
    text += more
    return parse(Path("q.toml"), text, tomllib.loads(text))


def node(
    name: str, provider: str | None, tables: Mapping[TableName, TableState] | None = None
) -> NodeState:
    kind = NodeType.ROOT if provider is None else NodeType.BRANCH
    kind = NodeType.LEAF if name in ("n3", "n4") else kind
    known = {t: TableState() for t in SIZES} if tables is None else tables
    return NodeState(True, kind, provider or name, f"q_{name}", f"dbname={name}", known, SIZES)


def state_of(providers: Mapping[str, str | None] = ROLES) -> CascadeState:
    return CascadeState({name: node(name, provider) for name, provider in providers.items()})


def changed(state: CascadeState, name: str, tables: Mapping[TableName, TableState]) -> CascadeState:
    return replace(state, nodes={**state.nodes, name: replace(state.nodes[name], tables=tables)})


def plan(file: CascadeFile, state: CascadeState) -> list[Action]:
    return decide(file, state, wanted(file, dict.fromkeys(SIZES, False)))


def short(actions: list[Action]) -> list[tuple[str, str, str]]:
    return [(a.kind.value, a.node, a.other or ",".join(t.name for t in a.tables)) for a in actions]


def test_what_is_like_the_file_needs_nothing() -> None:
    assert plan(file_of(), state_of()) == []


def test_an_empty_server_gets_everything_from_the_root_down() -> None:
    empty = NodeState(installed=False, relations=SIZES)
    file = file_of(more='[tables]\ninclude = ["*"]\n[nodes.n3.tables]\nexclude = ["b"]\n')
    blank = replace(empty, relations={C: 7})
    state = CascadeState(dict.fromkeys(ROLES, blank) | {"n1": empty})
    found = plan(file, state)
    assert short(found) == [
        *[("install", n, "") for n in ROLES],
        ("create-node", "n1", ""),
        ("create-node", "n2", "n1"),
        ("create-node", "n5", "n1"),
        ("create-node", "n3", "n2"),
        ("create-node", "n4", "n2"),
        ("add-table", "n1", "a,b,c"),
        ("add-table", "n2", "a,b,c"),
        ("add-table", "n5", "a,b,c"),
        ("add-table", "n3", "a,c"),
        ("add-table", "n4", "a,b,c"),
    ]
    adds = [a for a in found if a.kind is Kind.ADD]
    assert [a.copied for a in adds] == [0, 102_000_050, 102_000_050, 100_000_050, 102_000_050]
    assert [a.deleted for a in adds] == [0, 7, 7, 7, 7]
    assert adds[1].copies() == "102.0 MB, about 2 s"
    assert adds[1].copies(1_000_000) == "102.0 MB, about 2 min"
    assert adds[1].loses() == "existing rows on this node, 7 B"
    assert adds[0].locks() == "each table SHARE ROW EXCLUSIVE for milliseconds"


def test_a_new_table_a_changed_filter_and_a_moved_node_are_all_that_changes() -> None:
    file = file_of(
        {**ROLES, "n4": "n5"},
        '[tables]\ninclude = ["*"]\n[nodes.n3.tables."a"]\nwhere = "id > 3"\n'
        '[nodes.n5.tables."a"]\non_error = "skip_and_log"\n',
    )
    state = state_of()
    for name in ROLES:
        state = changed(state, name, {A: TableState(), C: TableState()})
    found = plan(file, state)
    assert short(found) == [
        ("add-table", "n1", "b"),
        ("add-table", "n2", "b"),
        ("add-table", "n5", "b"),
        ("change-policy", "n5", "a"),
        ("add-table", "n3", "b"),
        ("change-handler", "n3", "a"),
        ("add-table", "n4", "b"),
        ("wait-sync", "n5", ""),
        ("change-provider", "n4", "n5"),
    ]
    by_kind = {a.kind: a for a in found}
    assert by_kind[Kind.RULE].attrs == (("where", "id > 3"),)
    assert by_kind[Kind.RULE].copied == 100_000_000
    assert by_kind[Kind.POLICY].policy == "log"


def test_a_rule_of_a_node_overrides_that_of_all_key_by_key() -> None:
    file = file_of(
        more='[tables]\ninclude = ["*"]\n[tables."a"]\nwhere = "id > 1"\non_error = "keep_local"\n'
        '[tables."public.*"]\nwhere = "id > 0"\n[nodes.n3.tables."a"]\nwhere = ""\n'
    )
    found = wanted(file, dict.fromkeys(SIZES, False))
    assert found is not None
    assert found.nodes["n1"][A] == Rule()
    assert found.nodes["n2"][A] == Rule((("where", "id > 1"),), "keep")
    assert found.nodes["n2"][B] == Rule((("where", "id > 0"),))
    assert found.nodes["n3"][A] == Rule((), "keep")


def test_a_partition_is_replicated_with_its_table_unless_it_is_named() -> None:
    both = {A: False, B: True}
    for include, names in (("*", [A]), ("b", [B])):
        found = wanted(file_of(more=f'[tables]\ninclude = ["{include}"]\n'), both)
        assert found is not None and list(found.nodes["n1"]) == names
    with pytest.raises(BadOption, match=r"table public\.x does not exist on node n1"):
        wanted(file_of(more='[tables]\ninclude = ["x"]\n'), both)


def test_another_root_is_a_switchover_and_nodes_move_after_it() -> None:
    file = file_of({"n2": None, "n1": "n2", "n3": "n2", "n4": "n2", "n5": "n2"})
    found = plan(file, state_of())
    assert short(found) == [("switchover", "n2", "n1"), ("change-provider", "n5", "n2")]
    assert "at most 10 s" in found[0].locks()


def test_a_new_node_becomes_the_root_after_its_copies() -> None:
    file = file_of({"n5": None, "n1": "n5", "n2": "n1"})
    before = state_of({"n1": None, "n2": "n1"})
    state = replace(before, nodes={**before.nodes, "n5": NodeState()})
    assert short(plan(file, state)) == [
        ("create-node", "n5", "n1"),
        ("add-table", "n5", "a,b,c"),
        ("wait-sync", "n5", ""),
        ("switchover", "n5", "n1"),
    ]


def test_two_nodes_that_change_places_move_from_the_root_down() -> None:
    before = {"n1": None, "n2": "n1", "n5": "n2"}
    after = {"n1": None, "n5": "n1", "n2": "n5"}
    assert short(plan(file_of(after), state_of(before))) == [
        ("change-provider", "n5", "n1"),
        ("change-provider", "n2", "n5"),
    ]


def test_removed_tables_and_nodes_go_from_the_leaves_up() -> None:
    file = file_of(
        {"n1": None, "n2": "n1", "n4": "n2"},
        '[tables]\ninclude = ["*"]\nexclude = ["c"]\n[nodes.n2.tables]\nexclude = ["b"]\n',
    )
    before = state_of()
    others = {name: before.nodes[name] for name in ("n5", "n3")}
    others["n3"] = replace(others["n3"], provider="n5")
    state = replace(before, nodes={n: before.nodes[n] for n in file.nodes}, others=others)
    found = plan(file, state)
    assert short(found) == [
        ("remove-table", "n4", "b"),
        ("remove-table", "n2", "b"),
        ("remove-table", "n1", "c"),
        ("drop-node", "n3", ""),
        ("drop-node", "n5", ""),
    ]
    assert found[2].describe() == "n1: remove table public.c on all nodes"
    assert all(a.as_json()["needs_allow_remove"] for a in found)


def test_a_table_that_the_root_has_no_more_is_removed_by_its_event() -> None:
    file = file_of(more='[tables]\ninclude = ["*"]\nexclude = ["c"]\n')
    assert plan(file, changed(state_of(), "n1", {A: TableState(), B: TableState()})) == []


def test_without_the_section_no_table_is_touched() -> None:
    file = file_of(more="")
    assert wanted(file, dict.fromkeys(SIZES, False)) is None
    state = changed(state_of(), "n3", {})
    assert plan(file, state) == []


def test_parameters_of_the_queue_are_set_where_they_differ() -> None:
    state = replace(
        state_of(),
        wanted={"ticker_max_lag": "00:00:02", "ticker_paused": "false"},
        parameters={
            name: {"ticker_max_lag": "00:00:02" if name == "n1" else "00:00:03",
                   "ticker_paused": "false"}
            for name in ("n1", "n2", "n5")
        },
    )  # fmt: skip
    found = plan(file_of(), state)
    assert [(a.node, a.values) for a in found] == [
        ("n2", (("ticker_max_lag", "00:00:02"),)),
        ("n5", (("ticker_max_lag", "00:00:02"),)),
    ]


def operation(kind: OperationKind, of: str, new: str) -> Operation:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Operation(uuid.uuid4(), kind, of, new, "n2", True, None, "me@here", now)


def test_an_interrupted_command_is_finished_first() -> None:
    moved = {**ROLES, "n4": "n5"}
    state = replace(
        state_of(moved),
        operations={"n4": operation(OperationKind.CHANGE_PROVIDER, "n4", "n5")},
    )
    state = changed(state, "n3", {})
    found = plan(file_of(moved), state)
    assert short(found) == [("change-provider", "n4", "n5"), ("add-table", "n3", "a,b,c")]
    assert found[0].resumed and "continues an interrupted command" in found[0].describe()
    with pytest.raises(StateError, match="change of the provider of n4 to n5") as caught:
        plan(file_of(), state)
    assert "--rollback" in caught.value.hint


def test_an_interrupted_switchover_is_finished_whichever_node_is_root() -> None:
    after = {"n2": None, "n1": "n2"}
    begun = operation(OperationKind.SWITCHOVER, "n1", "n2")
    for now in ({"n1": None, "n2": "n1"}, {"n1": None, "n2": None}, {"n1": "n2", "n2": None}):
        state = replace(state_of(now), operations={"n1": begun, "n2": begun})
        assert short(plan(file_of(after), state)) == [("switchover", "n2", "n1")]


def test_a_copy_that_nodes_below_a_branch_have_yet_to_repeat_is_continued() -> None:
    for table in (TableState(state="in-copy"), TableState(state=None)):
        state = changed(state_of(), "n2", {**node("n2", "n1").tables, A: table})
        assert plan(file_of(), state) == []
        state = changed(
            state, "n2", {**node("n2", "n1").tables, A: replace(table, copy_below=True)}
        )
        found = plan(file_of(), state)
        assert short(found) == [("change-handler", "n2", "a")]
        assert found[0].resumed and not found[0].copied
    # With another change of the same table it is one action, which is no continuation.
    more = '[tables]\ninclude = ["*"]\n[nodes.n2.tables."a"]\nwhere = "id > 1"\n'
    found = plan(file_of(more=more), state)
    assert short(found) == [("change-handler", "n2", "a")] and not found[0].resumed


def test_an_export_is_a_file_that_needs_nothing() -> None:
    file = file_of(
        more='[tables]\ninclude = ["*"]\n[tables."b"]\non_error = "keep_local"\n'
        '[nodes.n3.tables]\nexclude = ["c"]\n[nodes.n2.tables."a"]\nwhere = "v = \'\\"x\\"\'"\n'
        'columns = ["id", "v,w"]\n[nodes.n4.tables."a"]\nhandler = "shard"\n'
        'handler_args = { nr = 1, count = 4, key = "id" }\n'
    )
    tables = wanted(file, dict.fromkeys(SIZES, False))
    assert tables is not None
    state = state_of()
    for name, rules in tables.nodes.items():
        state = changed(state, name, {t: TableState(rule) for t, rule in rules.items()})
    assert plan(file, state) == []
    dsns = {name: section.db for name, section in file.nodes.items()}
    exported = text(Exported("q", state.nodes, dsns))
    again = parse(Path("x.toml"), exported, tomllib.loads(exported))
    assert plan(again, state) == []
    assert wanted(again, dict.fromkeys(SIZES, False)) == tables
    assert {n: replace(s, tables=TablesSection()) for n, s in again.nodes.items()} == {
        n: replace(s, tables=TablesSection()) for n, s in file.nodes.items()
    }


def test_an_export_of_names_that_look_like_patterns_needs_nothing() -> None:
    names = [TableName("public", name) for name in ("a*", "ab", "a?", "a\\*", 'q"\\')]
    names.append(TableName("public", "x\x9b\u202e\U000e0001\x7f"))
    rules = {names[0]: Rule((("where", "id > 1"),)), names[4]: Rule(policy="log")}
    providers = {"n1": None, "n2": "n1", "n3": "n2"}
    mine = {name: TableState(rules.get(name, Rule())) for name in names if name != names[2]}
    state = CascadeState(
        {
            "n1": node("n1", None, {name: TableState() for name in names}),
            "n2": node("n2", "n1", mine),
            "n3": node("n3", "n2", {**mine, names[0]: TableState()}),
        }
    )
    dsns = {name: f"dbname={name}" for name in providers}
    exported = text(Exported("q", state.nodes, dsns))
    again = parse(Path("x.toml"), exported, tomllib.loads(exported))
    assert exported.replace("\n", "").isprintable()
    more = dict.fromkeys([*names, TableName("public", "abc")], False)
    assert decide(again, state, wanted(again, more)) == []


def test_sequences_follow_their_tables_and_others_the_file() -> None:
    """D: of a column of A.  E: named by nothing.  F: of a table that is not replicated."""
    d, e, f = (TableName("public", name) for name in "def")
    users = {d: frozenset([A]), e: frozenset(), f: frozenset([TableName("public", "x")])}
    providers = {"n1": None, "n2": "n1", "n3": "n2"}
    state = state_of(providers)

    def kept(**names: str) -> CascadeState:
        return replace(
            state,
            nodes={
                name: replace(
                    node,
                    users=users,
                    sequences=frozenset(
                        one for one in users if one.name in names.get(name, names.get("rest", ""))
                    ),
                )
                for name, node in state.nodes.items()
            },
        )

    def planned(more: str, now: CascadeState) -> list[tuple[str, str, str]]:
        file = file_of(providers, f'[tables]\ninclude = ["*"]\n{more}')
        actions = decide(file, now, wanted(file, dict.fromkeys(SIZES, False), users))
        return [(a.kind.value, a.node, "".join(s.name for s in a.sequences)) for a in actions]

    everywhere = [("add-seq", name, "d") for name in providers]
    assert planned("", kept()) == everywhere
    assert planned("", kept(n1="de", rest="d")) == []
    # What the root cannot provide is not added below it.
    no_root = kept(rest="")
    no_root = replace(
        no_root, nodes={**no_root.nodes, "n1": replace(no_root.nodes["n1"], users={})}
    )
    assert planned("", no_root) == []
    assert planned('sequences = ["*"]', kept()) == [("add-seq", name, "def") for name in providers]
    fewer = 'sequences = ["e"]\n[nodes.n3.tables]\nsequences = []'
    assert planned(fewer, kept(n1="d", n2="de", n3="def")) == [
        ("add-seq", "n1", "e"),
    ]
    assert planned(fewer, kept(rest="def")) == [
        ("remove-seq", "n3", "e"),
        ("remove-seq", "n1", "f"),
    ]
    # A removal keeps those that the file names, on the nodes for which it does.
    left = 'exclude = ["a"]\nsequences = ["d"]'
    assert planned(left, kept(rest="d")) == [("remove-table", "n1", "d")]
    assert planned(left, kept(rest="")) == [
        *everywhere,
        ("remove-table", "n1", "d"),
    ]
    below = "[nodes.n3.tables]\nsequences = []"
    assert planned(f"{left}\n{below}", kept(rest="d")) == [
        ("remove-table", "n1", "d"),
        ("remove-seq", "n3", "d"),
    ]
    assert planned('exclude = ["a"]\nsequences = []', kept(rest="d")) == [
        ("remove-table", "n1", "")
    ]
    with pytest.raises(BadOption, match=r"sequence public\.nope does not exist on node n1"):
        planned('sequences = ["nope"]', kept())
    # An export keeps those that follow no table.
    now = kept(n1="def", n2="def", n3="de")
    dsns = {name: f"dbname={name}" for name in providers}
    exported = text(Exported("q", now.nodes, dsns))
    assert 'sequences = ["public.e", "public.f"]\n' in exported
    again = parse(Path("x.toml"), exported, tomllib.loads(exported))
    assert decide(again, now, wanted(again, dict.fromkeys(SIZES, False), users)) == []


@pytest.mark.parametrize(
    ("now", "file", "message"),
    [
        ({"n1": None, "n3": "n1"}, {"n3": None, "n1": "n3"}, "n3 is a leaf and cannot become"),
        ({"n1": None, "n2": None}, {"n1": None, "n2": "n1"}, "2 roots: n1, n2"),
    ],
)
def test_what_no_step_can_do_is_refused(
    now: Mapping[str, str | None], file: Mapping[str, str | None], message: str
) -> None:
    with pytest.raises(StateError, match=message):
        plan(file_of(file), state_of(now))


def test_another_role_or_worker_is_refused_with_what_to_write() -> None:
    state = state_of()
    leaf = replace(state.nodes["n2"], type=NodeType.LEAF)
    with pytest.raises(StateError, match="n2 is a leaf, not a branch") as caught:
        plan(file_of(), replace(state, nodes={**state.nodes, "n2": leaf}))
    assert caught.value.hint.startswith('write role = "leaf"')
    other = replace(state.nodes["n2"], worker="w")
    with pytest.raises(StateError, match="its worker is w, not q_n2"):
        plan(file_of(), replace(state, nodes={**state.nodes, "n2": other}))


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        ({"where": "a"}, {"where": "b"}, False),
        ({"where": "a"}, {}, True),
        ({}, {"where": "a"}, False),
        ({"handler": "obfuscate(key=1)"}, {"handler": "obfuscate(key=2)"}, False),
        ({"handler": "obfuscate(key=1)"}, {"handler": "noop"}, True),
        ({"columns": "a,b"}, {"columns": "a"}, False),
        ({"columns": "a,b"}, {"columns": "a,c"}, True),
        ({"skip_columns": "a"}, {"skip_columns": "a,b"}, False),
        ({"skip_columns": "a,b"}, {"skip_columns": "a"}, True),
        ({"skip_columns": "a,b"}, {"columns": "c"}, True),
    ],
)
def test_a_rule_that_exposes_more_is_known(
    before: dict[str, str], after: dict[str, str], more: bool
) -> None:
    assert Rule.of(after).exposes_more_than(Rule.of(before)) is more
