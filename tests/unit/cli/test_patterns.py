"""Names and patterns on the command line."""

from __future__ import annotations

import subprocess

import click
import pytest
from click.testing import CliRunner

from londiste.applier.event_errors import hint_for
from londiste.cli.lazy import with_words
from londiste.db.names import TableName, argument, word
from londiste.errors import UnknownTable
from londiste.replication.model import ReplicatedTable, decode_attrs, encode_attrs
from londiste.replication.patterns import (
    escaped,
    is_pattern,
    matches,
    named,
    parsed,
    select,
    table_meant,
)

A, AB, OTHER, ODD = (
    TableName("public", "a"),
    TableName("public", "ab"),
    TableName("other", "a"),
    TableName("public", "a[b]"),
)
ALL = [A, AB, OTHER, ODD]


def unknown(text: str) -> UnknownTable:
    return UnknownTable(f"no {text}")


def test_a_name_without_a_dot_is_in_public() -> None:
    assert select(["a"], ALL, [], unknown).chosen == (A,)
    assert select(["other.a"], ALL, [], unknown).chosen == (OTHER,)


def test_a_star_is_any_text_and_a_question_mark_one_character() -> None:
    assert select(["a?"], ALL, [], unknown).chosen == (AB,)
    assert select(["a*"], ALL, [], unknown).chosen == (A, AB, ODD)
    assert select(["*.a"], ALL, [], unknown).chosen == (A, OTHER)


def test_brackets_mean_themselves() -> None:
    assert select(["a[b]"], ALL, [], unknown).chosen == (ODD,)
    assert select(["*[b]"], ALL, [], unknown).chosen == (ODD,)


def test_a_table_named_twice_is_chosen_once() -> None:
    assert select(["a", "a*", "a"], ALL, [], unknown).chosen == (A, AB, ODD)


def test_what_is_done_already_is_told_apart() -> None:
    found = select(["a", "ab"], [A], [AB], unknown)
    assert (found.chosen, found.already) == ((A,), (AB,))
    assert select(["a*"], [A], [AB], unknown).already == ()


@pytest.mark.parametrize("name", ["x", "x*", "nowhere.a"])
def test_one_unknown_name_refuses_all(name: str) -> None:
    with pytest.raises(UnknownTable):
        select(["a", name], ALL, [], unknown)


def test_force_takes_a_plain_name_as_it_is() -> None:
    assert select(["x"], ALL, [], unknown, force=True).chosen == (TableName("public", "x"),)
    with pytest.raises(UnknownTable):
        select(["x*"], ALL, [], unknown, force=True)


def test_attributes_survive_encoding() -> None:
    attrs = {"handler": "bulk(a=1&b=%)", "Ümlaut": "a b+c", "empty": ""}
    assert decode_attrs(encode_attrs(attrs)) == attrs
    assert encode_attrs({}) is None
    assert decode_attrs(None) == {}
    assert decode_attrs("skip_truncate=1&x=a+b%2c") == {"skip_truncate": "1", "x": "a b,"}


def test_one_object_is_itself_even_if_its_name_looks_like_a_pattern() -> None:
    star = TableName("public", "a*")
    assert select([star], [*ALL, star], [], unknown).chosen == (star,)
    assert select([star], ALL, [star], unknown).already == (star,)
    assert select([star], ALL, [], unknown, force=True).chosen == (star,)
    with pytest.raises(UnknownTable, match=r"no public\.a"):
        select([star], ALL, [], unknown)


def test_a_name_without_a_match_has_the_nearest_one_as_its_hint() -> None:
    known = [
        TableName("public", "orders"),
        TableName("sales", "orders"),
        TableName("sales", "items"),
    ]
    assert table_meant("ordrs", known, "list") == "did you mean public.orders?"
    assert table_meant("sales.ordrs", known, "list") == "did you mean sales.orders?"
    # The same schema makes no names alike, and another schema is a mistake, too.
    assert table_meant("ORDERS", known, "list") == "did you mean public.orders?"
    assert table_meant("sales.xy", known, "list") == "list"
    assert table_meant("public.items", known, "list") == "did you mean sales.items?"
    assert table_meant("ord?rss*", known, "list") == "list"


@pytest.mark.parametrize(
    "name", ["a*", "a?b", "a\\", "a\\*", "\\\\?", "*.*", "b\\c", "plain", "\\n", "*\\*?"]
)
def test_an_escaped_name_is_one_object(name: str) -> None:
    odd = TableName("s*", name)
    others = [TableName("sx", name), TableName("s*", f"{name}x"), TableName("s*", "ab"), A]
    assert not is_pattern(escaped(odd))
    assert parsed(escaped(odd)) == odd
    assert matches(odd, [escaped(odd)])
    assert not any(matches(other, [escaped(odd)]) for other in others)
    assert select([escaped(odd)], [*others, odd], [], unknown).chosen == (odd,)


def test_a_backslash_makes_one_character_ordinary_and_no_other() -> None:
    star, longer = TableName("public", "a*"), TableName("public", "a*b")
    assert select([r"a\**"], [A, AB, star, longer], [], unknown).chosen == (star, longer)
    assert select([r"a\*"], [A, AB, star, longer], [], unknown, force=True).chosen == (star,)
    # Before any other character it is itself, as names with it were written before.
    assert parsed(r"a\b") == TableName("public", r"a\b")
    assert matches(TableName("public", r"a\b"), [r"a\?", r"*\b"])
    assert escaped(A) == "public.a"


STRANGE = (
    "a*",
    "a?",
    "a\\*",
    "b\\",
    "two words",
    "it's",
    '"x"',
    "$HOME",
    "a.b",
    "Große",
    "🐘",
    "100%",
)
TABLES = [TableName("public", name) for name in (*STRANGE, "ab", "line\nbreak")]


def pasted(command: str) -> list[str]:
    """The words that bash makes of a command, without the first."""
    script = f"set -- {command}; printf '%s\\0' \"$@\""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[1:-1]


@pytest.mark.parametrize("name", TABLES, ids=str)
def test_a_name_in_a_command_means_this_table_only(name: TableName) -> None:
    found = pasted(f"x {argument(name)}")
    assert select(found, TABLES, [], unknown).chosen == (name,)


def test_a_plain_name_has_no_quotes() -> None:
    assert argument(TableName("sales", "order_2")) == "sales.order_2"


def test_hints_name_a_table_as_a_shell_reads_it() -> None:
    name = TableName("public", "a* b")
    assert "resync 'public.a\\* b'" in hint_for("23505", OTHER, name)
    assert table_meant("public.a b", [name], "") == "did you mean 'public.a\\* b'?"


@pytest.mark.parametrize(
    "name", ["-x.t", "--db=host=evil.t", "-.-", "\\-x.t", "\\\\--y.t", "a-b.c"]
)
def test_a_name_is_no_option_of_a_pasted_command(name: str) -> None:
    @click.command()
    @click.argument("tables", nargs=-1)
    @click.option("--db")
    def command(tables: tuple[str, ...], db: str | None) -> None:
        click.echo(f"{[str(parsed(table)) for table in tables]} {db}")

    @click.command()
    @click.argument("queue")
    @click.option("--node", metavar="NAME")
    def exact(queue: str, node: str) -> None:
        click.echo(f"{queue} {node}")

    call = CliRunner().invoke
    words = pasted(f"x {argument(name)} {argument(name)} --db known")
    assert call(with_words(command), words).output == f"{[name, name]} known\n"
    words = pasted(f"x {word(name)} --node {word(name)}")
    assert call(with_words(exact), words).output == f"{name} {name}\n"


def test_replicated_tables_are_chosen_by_names_that_are_there() -> None:
    known = [ReplicatedTable(name, name, True) for name in ALL]
    assert named(known, []) == known
    assert named(known, [ODD, A]) == [known[0], known[3]]
    with pytest.raises(UnknownTable, match=r"table public\.no is not replicated here"):
        named(known, [A, TableName("public", "no")])
