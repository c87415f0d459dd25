"""``add-seq --create`` creates sequences without owner column like those of the provider."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import Command, Line, LineNode

MADE = """
create sequence free_ids as int start with 5 increment by 3 minvalue 2 maxvalue 90000 cache 4 cycle;
create schema "Own" authorization seq_owner; grant usage on schema "Own" to public;
create sequence "Own"."N o"; comment on sequence "Own"."N o" is 'it''s';
alter sequence "Own"."N o" owner to seq_owner;
create sequence unused increment by -1;
select nextval('free_ids'), nextval('"Own"."N o"') from generate_series(1, 7)
"""
SHAPE = """
select s.schemaname, s.sequencename, s.sequenceowner, s.data_type::text, s.start_value, s.min_value,
    s.max_value, s.increment_by, s.cycle, s.cache_size,
    obj_description(format('%I.%I', s.schemaname, s.sequencename)::regclass)
from pg_sequences s where s.sequencename in ('free_ids', 'N o', 'unused') order by 1, 2
"""
SCHEMA = "select nspowner::regrole::text, nspacl::text from pg_namespace where nspname = 'Own'"
NAMES = ("public.free_ids", "Own.N o", "public.unused")


@pytest.fixture
def nodes(line: Line, command: Command) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT)
    leaf = line.node("leaf", NodeType.LEAF, root)
    root.database.execute(
        "do $$ begin create role seq_owner; exception when duplicate_object then null; end $$"
    )
    root.database.execute(MADE)
    assert command(root, "add-seq", *NAMES).code == 0
    return root, leaf


def test_sequences_are_made_as_the_provider_has_them_and_are_ahead_of_it(
    line: Line, nodes: tuple[LineNode, LineNode], command: Command
) -> None:
    root, leaf = nodes
    refused = command(leaf, "add-seq", "public.free_ids")
    assert refused.code == 2
    assert "londiste add-seq --create public.free_ids" in refused.err
    explained = command(leaf, "add-seq", "--create", "--all", "--dry-run")
    assert explained.code == 0, explained.err
    assert "create sequence public.free_ids and add it" in explained.out
    assert leaf.database.execute(SHAPE) == []
    done = command(leaf, "add-seq", "--create", "--all")
    assert done.code == 0, done.err
    assert leaf.database.execute(SHAPE) == root.database.execute(SHAPE)
    assert leaf.database.execute(SCHEMA) == root.database.execute(SCHEMA)
    root.database.execute("select londiste.root_check_seqs('line')")
    line.tick()
    line.once(leaf)
    ahead = "select last_value from free_ids"
    assert leaf.database.value(ahead) > root.database.value(ahead)
    listed = {
        row["sequence"]: row["local"] for row in command(leaf, "seqs", "--json").json["sequences"]
    }
    assert listed == dict.fromkeys(NAMES, True)
    again = command(leaf, "add-seq", "--create", *NAMES)
    assert again.code == 0, again.err


def test_what_the_provider_has_not_and_the_root_are_refused(
    line: Line, nodes: tuple[LineNode, LineNode], command: Command
) -> None:
    root, leaf = nodes
    done = command(root, "add-seq", "--create", "public.unused")
    assert done.code == 2
    assert "hint:" in done.err
    root.database.execute("drop sequence unused")
    done = command(leaf, "add-seq", "--create", "public.unused")
    assert done.code == 2
    assert "does not exist" in done.err
    assert leaf.database.execute(SHAPE) == []
