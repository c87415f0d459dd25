"""Mistakes of a cascade file that ``plan`` and ``apply`` find before the first step."""

from __future__ import annotations

import pytest

from tests.fixtures.one_file import OneFile

ROLES = {"n1": "root", "n2": "leaf of n1"}
INCLUDE = '\n[tables]\ninclude = ["orders"]\n'
FILTERED = '[nodes.n2.tables."public.orders"]\nwhere = "id > 1"\n'
#: Sections of the file; what is reported; the hint.
MISTAKES = {
    INCLUDE + FILTERED.replace("orders", "ordres"): (
        "table public.ordres does not exist on node n1",
        "did you mean public.orders?",
    ),
    '\n[tables]\ninclude = ["orders", "pubic.*"]\n': (
        "pattern pubic.* matches no table of node n1",
        "did you mean public.*?",
    ),
    INCLUDE + '[tables."public.o?"]\nwhere = "true"\n': (
        "pattern public.o? matches no table of node n1",
        "correct it, or remove it from the file",
    ),
    INCLUDE + 'exclude = ["public.order"]\n': (
        "table public.order does not exist on node n1",
        "did you mean public.orders?",
    ),
    INCLUDE + FILTERED.replace("id > 1", "id >"): (
        "node n2: where id >: syntax error",
        "where = \"region = 'eu'\"",
    ),
    INCLUDE + FILTERED.replace("id > 1", "at > now()"): (
        "must be marked IMMUTABLE",
        "remove now()",
    ),
    '\n[tables]\ninclude = ["*"]\n': (
        "table public.keyless has no primary key",
        'write keyless = "whole_row" (rows match by all columns) or keyless = "insert_only" into'
        " [tables]",
    ),
}


@pytest.fixture
def file(one_file: OneFile) -> OneFile:
    one_file.write(ROLES, INCLUDE)
    one_file.db["n1"].execute(
        "create table orders (id int primary key, at timestamptz); create table keyless (v int)"
    )
    return one_file


def test_a_table_without_a_key_is_refused_where_nothing_is_installed(one_file: OneFile) -> None:
    one_file.write(ROLES, INCLUDE.replace("orders", "keyless"), pgq=False)
    one_file.db["n1"].execute("create table keyless (v int)")
    refused = one_file("apply")
    assert refused.code == 2, refused
    assert "table public.keyless has no primary key" in refused.err
    assert 'write keyless = "whole_row"' in refused.err


def test_mistakes_are_found_before_the_first_step(file: OneFile) -> None:
    for more, (said, hint) in MISTAKES.items():
        file.write(ROLES, more)
        for command in ("plan", "apply"):
            refused = file(command)
            assert refused.code == 2, (more, refused)
            assert said in refused.err and hint in refused.err, refused.err
    assert file.db["n1"].value("select count(*) from pgq_node.node_info") == 0
    # A pattern that excludes may be about tables to come.
    file.write(ROLES, INCLUDE + 'exclude = ["public.tmp_*"]\n')
    assert file("plan").code == 2


def test_a_filter_is_removed_only_on_request(file: OneFile) -> None:
    file.write(ROLES, INCLUDE + FILTERED)
    assert file("apply").code == 0
    file.write(ROLES, INCLUDE)
    planned = file("plan")
    assert planned.code == 2 and "needs: --allow-unfiltered" in planned.out
    assert file("plan", "--json").json["actions"][0]["needs_allow_unfiltered"] is True
    refused = file("apply")
    assert refused.code == 3
    assert "n2: change table public.orders to no handler and no filter" in refused.err
    assert "or run londiste apply --allow-unfiltered" in refused.err
    assert "id > 1" in str(file("--node", "n2", "tables").out)
    assert file("apply", "--allow-unfiltered").code == 0
    assert file("plan").code == 0
