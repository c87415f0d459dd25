"""Tables of the administrator with a type of another role, who can add a check to it later."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import CommandLine, Node, Nodes
from tests.fixtures.owners import OWNER, as_owner, make_scene, proof
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.suite.slow import only

_TYPES = {
    "domain": ("create domain shop.d as text", "shop.d", "alter type shop.d owner to "),
    "array": ("create domain shop.d as text", "shop.d[]", "alter type shop.d owner to "),
    "composite": (
        "create type shop.pair as (a int)",
        "shop.pair",
        "alter type shop.pair owner to ",
    ),
    "part of a composite": (
        "create domain shop.d as text",
        "public.whole",
        "alter type shop.d owner to ",
    ),
    "row": ("select", "shop.t", "alter table shop.t owner to "),
}


@pytest.fixture
@kept_nodes
def pair(nodes_of: Nodes) -> tuple[Node, Node]:
    root = nodes_of.root()
    below = nodes_of.below(root, "leaf", NodeType.LEAF)
    for node in (root, below):
        make_scene(node.db)
    return root, below


def _with_type(pair: tuple[Node, Node], londiste: CommandLine, kind: str) -> str:
    """A table of the root with a type; the type exists on the leaf, the table does not."""
    make, column, remedy = _TYPES[kind]
    for node in pair:
        as_owner(node.db, make)
        if column == "public.whole":
            node.db.execute("create type public.whole as (a int, d shop.d)")
    pair[0].db.execute(f"create table public.u (id int primary key, c {column})")
    assert londiste(pair[0].db, "add-table", "public.u").code == 0
    return remedy + str(pair[1].db.value("select current_user::regrole::text"))


@pytest.mark.parametrize("kind", only(_TYPES, "domain", "part of a composite", "row"))
def test_a_table_with_a_type_of_another_role_is_not_created(
    pair: tuple[Node, Node], londiste: CommandLine, kind: str
) -> None:
    remedy = _with_type(pair, londiste, kind)
    leaf = pair[1]
    refused = londiste(leaf.db, "add-table", "public.u", "--create")
    assert refused.code == 2, refused
    assert f" of table public.u belongs to {OWNER}" in refused.err
    assert leaf.db.value("select to_regclass('public.u')") is None
    assert f": {remedy}; or, " in refused.err
    leaf.db.execute(remedy)
    assert londiste(leaf.db, "add-table", "public.u", "--create").code == 0


def test_who_consents_creates_the_table_and_check_names_it(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    remedy = _with_type(pair, londiste, "domain")
    leaf = pair[1]
    assert londiste(leaf.db, "add-table", "public.u", "--create", "--allow-code").code == 0

    def findings() -> list[dict[str, str]]:
        found = londiste(leaf.db, "check", "--json").json["findings"]
        return [one for one in found if one["kind"] == "type-owner"]

    (one,) = findings()
    assert one["what"] == f"node leaf: type shop.d of table public.u belongs to {OWNER}"
    assert remedy in one["do"]
    leaf.db.execute(one["do"])
    assert findings() == []
    assert proof(leaf.db) == []


@pytest.mark.parametrize("owner", ["the table's", "an enum", "a superuser"])
def test_types_that_give_nobody_more_rights_are_no_finding(
    pair: tuple[Node, Node], londiste: CommandLine, owner: str
) -> None:
    make = (
        "create type shop.e as enum ('a')" if owner == "an enum" else "create domain shop.e as int"
    )
    root, leaf = pair
    for node in pair:
        if owner == "a superuser":
            node.db.execute(make)
        else:
            as_owner(node.db, make)
    root.db.execute("create table public.u (id int primary key, c shop.e)")
    assert londiste(root.db, "add-table", "public.u").code == 0
    if owner == "the table's":
        as_owner(leaf.db, "create table shop.u (id int primary key, c shop.e)")
        leaf.db.execute("alter table shop.u set schema public")
        assert londiste(leaf.db, "add-table", "public.u", "--expect-sync").code == 0
    else:
        assert londiste(leaf.db, "add-table", "public.u", "--create").code == 0
    assert "type-owner" not in londiste(leaf.db, "check", "--json").out
