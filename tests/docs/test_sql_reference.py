"""docs/reference/sql matches the files in sql/."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.fixtures.cluster import Database

ROOT = Path(__file__).parents[2]


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


generate: Any = _load()


def test_the_committed_pages_are_what_the_script_makes() -> None:
    committed = {p.name: p.read_text(encoding="utf-8") for p in generate.PAGES.glob("*.md")}
    wanted = generate.pages()
    every = sorted({*committed, *wanted})
    old = [name for name in every if committed.get(name) != wanted.get(name)]
    assert not old, f"{', '.join(old)} in docs/reference/sql differ from sql/: run make docs"


def test_sql_is_ascii() -> None:
    """A database whose encoding lacks a character refuses a statement even for its comments."""
    for path in sorted(generate.SQL.rglob("*.sql")):
        assert path.read_bytes().isascii(), path


def test_triggers_of_users_are_those_without_an_index() -> None:
    """Release 14 of PostgreSQL calls a trigger internal if a partition inherits it: it is code."""
    files = [*generate.SQL.rglob("*.sql"), *(ROOT / "londiste").rglob("*.py")]
    for path in sorted(files):
        if "upgrades" not in path.parts:
            assert not re.search(r"(?i)not\s+(\w+\.)?tgisinternal", path.read_text("utf-8")), (
                f"{path}: tgconstrindid = 0 is true for all triggers of users, on every release"
            )


_QUOTED = re.compile(
    r"""--[^\n]*|/\*.*?\*/|(?P<tag>\$\w+\$).*?(?P=tag)|"[^"]*"
    |[eE]'(?:[^'\\]|\\.|'')*'(?:\s*\n\s*'(?:[^'\\]|\\.|'')*')*
    |(?P<plain>'[^']*')|\w+|.""",
    re.DOTALL | re.VERBOSE,
)


def test_a_backslash_is_in_a_string_that_means_the_same_in_every_session() -> None:
    r"""With standard_conforming_strings off, ``'\('`` is another text.  The queries are our own."""
    for path in sorted(generate.SQL.glob("*/component.toml")):
        for file in sorted(path.parent.rglob("*.sql")):
            for found in _QUOTED.finditer(file.read_text("ascii")):
                text = found["plain"] or ""
                assert "\\" not in text, f"{file}: write E{text} with two, or a class: [.]"


SCHEMAS = sorted(path.parent.name for path in generate.SQL.glob("*/component.toml"))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_public_function_has_a_header_that_begins_with_a_sentence(schema: str) -> None:
    for one in generate.functions(generate.SQL / schema):
        assert generate._sentence(one.header), f"{one.name}: no header comment"


def test_a_function_is_read_with_overloads_defaults_and_brackets() -> None:
    text = """
create or replace function s.f(
    i_name text,  -- a name, with (brackets)
    i_list text[] default array['a', 'b)'],
    variadic i_rest int[],
    out r_id bigint
)
returns record language sql strict security definer as $x$
/*
 * Does it.
 *
 * i_name -- what for
 *     and why.
 */
select 'LD001' -- 'LD002'
$x$;
create function s.f() returns setof s.t language sql as $$ /* Again. */ select 1 $$;
"""
    first, second = generate.in_text(text, "queues")
    assert first.inputs == ("text", "text[]", "int4[]")
    assert first.returns == "record"
    assert first.header.startswith("Does it.")
    assert generate.error_codes([first, second]) == {"s.f": ["LD001"]}
    assert (second.arguments, second.returns) == ((), "setof s.t")
    assert list(generate._prose(first.header))[2:4] == ["* `i_name`: what for", "  and why."]


def test_hints_in_strings_are_no_calls() -> None:
    text = "create function s.{0}() returns int language sql as $$ {1} $$;"
    callers = [
        *generate.in_text(text.format("a", "select s.c()"), "g"),
        *generate.in_text(text.format("b", "select 'select s.c()'"), "g"),
        *generate.in_text(text.format("c", "select 'LD005'"), "g"),
    ]
    assert generate.error_codes(callers) == {"s.a": ["LD005"], "s.b": [], "s.c": ["LD005"]}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_who_may_call_what_is_what_the_database_says(pgq_db: Database, schema: str) -> None:
    """The grants read from the text, against the rights that PostgreSQL has stored."""
    stored = {
        (f"{schema}.{name}", tuple(generate._type(one) for one in types)): set(roles or [])
        for name, types, roles in pgq_db.execute(
            "select p.proname::text, coalesce((select array_agg(t::regtype::text order by n)"
            " from unnest(p.proargtypes) with ordinality u (t, n)), '{}'),"
            " (select array_agg(case a.grantee when 0 then 'public' else a.grantee::regrole::text"
            " end) from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
            " where a.grantee <> p.proowner)"
            " from pg_proc p where p.pronamespace = %s::regnamespace",
            schema,
        )
    }
    rights = generate.grants(generate.SQL / schema)
    for one in generate.functions(generate.SQL / schema):
        roles = stored[one.name, one.inputs]
        says = set(rights.of(one))
        assert says == ({"public"} if "public" in roles else roles), one.signature()
