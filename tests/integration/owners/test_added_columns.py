"""``columns --add`` runs the checks of new columns with the rights of the table's owner."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import CommandLine, Node, Nodes
from tests.fixtures.owners import OWNER, as_owner, make_scene, proof

_EVIL = """
    create function shop.evil() returns boolean language plpgsql as $e$
    begin
        begin
            insert into vault.proof values ('check');
        exception when insufficient_privilege then
            insert into shop.seen values (current_user);
        end;
        return true;
    end $e$;
    insert into shop.t values (1, 'a');
"""


@pytest.fixture
def pair(nodes_of: Nodes, londiste: CommandLine) -> tuple[Node, Node]:
    """A root with a column of a domain that the leaf's table lacks."""
    root = nodes_of.root()
    below = nodes_of.below(root, "leaf", NodeType.LEAF)
    for node in (root, below):
        make_scene(node.db)
        as_owner(node.db, _EVIL)
    assert londiste(root.db, "add-table", "shop.t").code == 0
    assert londiste(below.db, "add-table", "shop.t", "--expect-sync").code == 0
    return root, below


def _new_column(root: Node, below: Node, domain: str) -> None:
    root.db.execute(f"create domain {domain} as text; alter table shop.t add c {domain}")
    below.db.execute(f"create domain {domain} as text check (shop.evil())")


def test_the_check_of_a_domain_runs_as_the_owner_of_the_table(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, below = pair
    _new_column(root, below, "shop.d")
    done = londiste(below.db, "columns", "--add")
    assert done.code == 0, done.err
    assert below.db.value("select array_agg(attname::text) from pg_attribute where attname = 'c'")
    assert proof(below.db) == []
    assert below.db.execute("select distinct who from shop.seen") == [(OWNER,)]


def test_a_type_that_the_owner_may_not_use_is_named_with_the_grants(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, below = pair
    for node in pair:
        node.db.execute('create schema "Types"')
    _new_column(root, below, '"Types".d')
    below.db.execute('revoke usage on type "Types".d from public')
    done = londiste(below.db, "columns", "--add")
    assert done.code == 2
    assert f'table shop.t: its owner {OWNER} may not use type "Types".d' in done.err
    hint = done.err.split("as an administrator of ")[1].split(": ", 1)[1].strip()
    assert hint == (
        f'grant usage on schema "Types" to {OWNER}; grant usage on type "Types".d to {OWNER}'
    )
    below.db.execute(hint)
    assert londiste(below.db, "columns", "--add").code == 0
    assert proof(below.db) == []
