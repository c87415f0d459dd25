"""A partition of a table of another role is not created by the administrator."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import CommandLine, Nodes
from tests.fixtures.owners import OWNER, as_owner, make_scene, proof

_EVIL = """
    create function shop.act() returns void language plpgsql as $e$
    begin
        insert into vault.proof values ('key');
    exception when insufficient_privilege then
        null;
    end $e$;
    create function shop.f(text) returns text language plpgsql immutable as
        'begin perform shop.act(); return $1; end';
    create table shop.p (id int, v text) partition by list ((shop.f(v)));
"""


def test_a_partition_of_a_table_of_another_role_needs_consent(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf", NodeType.LEAF)
    for node in (root, leaf):
        make_scene(node.db)
        as_owner(node.db, _EVIL)
    root.db.execute(
        "create table public.p_1 partition of shop.p (primary key (id)) for values in ('x')"
    )
    as_owner(
        leaf.db,
        "create table shop.rest partition of shop.p default; insert into shop.p values (1, 'y')",
    )
    assert londiste(root.db, "add-table", "public.p_1").code == 0
    leaf.db.execute("truncate vault.proof")
    refused = londiste(leaf.db, "add-table", "public.p_1", "--create-full")
    assert refused.code == 2, refused
    assert f"table shop.p would get a partition or child, and belongs to {OWNER}" in refused.err
    assert proof(leaf.db) == []
    assert leaf.db.value("select to_regclass('public.p_1')") is None
    alone = ["--create-full", "--create-without", "parents"]
    assert londiste(leaf.db, "add-table", "public.p_1", *alone).code == 0
    assert proof(leaf.db) == []
    assert londiste(leaf.db, "remove-table", "public.p_1").code == 0
    leaf.db.execute("drop table public.p_1")
    assert londiste(leaf.db, "add-table", "public.p_1", "--create-full", "--allow-code").code == 0
    assert (
        leaf.db.value(
            "select inhparent::regclass::text from pg_inherits"
            " where inhrelid = 'public.p_1'::regclass"
        )
        == "shop.p"
    )
