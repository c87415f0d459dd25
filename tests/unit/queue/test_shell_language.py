"""The shell's language: every statement, syntax errors, completions."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from londiste.errors import BadOption
from londiste.shell import lexer
from londiste.shell import node_statements as n
from londiste.shell import queue_statements as q
from londiste.shell import statements as s
from londiste.shell.completion import Catalog, begun, complete
from londiste.shell.language import Runs, parse
from londiste.shell.node_statements import table_options
from londiste.shell.statements import FORMS

MEANT: list[tuple[str, Runs, dict[str, Any]]] = [
    ("connect dbname=shop", s.connect, {"parameters": {"dbname": "shop"}}),
    (
        "CONNECT dbname=shop host=/tmp port=5433 user='a b' service=s queue=\"q 1\" node=n2",
        s.connect,
        {
            "parameters": {
                "dbname": "shop",
                "host": "/tmp",
                "port": "5433",
                "user": "a b",
                "service": "s",
                "queue": "q 1",
                "node": "n2",
            }
        },
    ),
    ("connect queue=q, node=n", s.connect, {"parameters": {"queue": "q", "node": "n"}}),
    ("install pgq", s.install, {"component": "pgq"}),
    ("install londiste", s.install, {"component": "londiste"}),
    ("show version", s.show_version, {}),
    ("show help", s.show_help, {}),
    ("help", s.show_help, {}),
    ("exit", s.leave, {}),
    ("Quit", s.leave, {}),
    ("create queue q", q.create_queue, {"queue": "q"}),
    ("Create\n  Queue -- a comment\n 'it''s'", q.create_queue, {"queue": "it's"}),
    ('create queue "a ""b"" ;"', q.create_queue, {"queue": 'a "b" ;'}),
    ("drop queue a.b-c", q.drop_queue, {"queue": "a.b-c"}),
    ("drop queue q force", q.drop_queue, {"queue": "q", "force": True}),
    (
        "alter queue q set ticker_max_lag = '3 seconds', ticker_paused=true",
        q.alter_queue,
        {"queue": "q", "settings": {"ticker_max_lag": "3 seconds", "ticker_paused": "true"}},
    ),
    (
        "alter queue * set Rotation_Period = 2 hours",
        q.alter_queue,
        {"queue": "*", "settings": {"rotation_period": "2 hours"}},
    ),
    ("show queue", q.show_queue, {}),
    ("show queue *", q.show_queue, {"queue": "*"}),
    ("show queue q", q.show_queue, {"queue": "q"}),
    ("show consumer", q.show_consumer, {}),
    ("show consumer c", q.show_consumer, {"consumer": "c"}),
    ("show consumer * on q", q.show_consumer, {"consumer": "*", "queue": "q"}),
    ("show consumer on q", q.show_consumer, {"queue": "q"}),
    ("show node", n.show_node, {}),
    ("show node * on q", n.show_node, {"node": "*", "queue": "q"}),
    ("show node n", n.show_node, {"node": "n"}),
    ("show batch 12", q.show_batch, {"batch": "12"}),
    ("show batch c", q.show_batch, {"batch": "c"}),
    ("show table public.t", n.show_table, {"table": "public.t"}),
    ("show sequence s", n.show_sequence, {"sequence": "s"}),
    ("register consumer c", q.register_consumer, {"consumer": "c"}),
    (
        "register consumer c on q at 5",
        q.register_consumer,
        {"consumer": "c", "queue": "q", "tick": "5"},
    ),
    (
        "register consumer c copy d on q",
        q.register_consumer,
        {"consumer": "c", "queue": "q", "copy": "d"},
    ),
    (
        "register consumer c at 5 copy d",
        q.register_consumer,
        {"consumer": "c", "tick": "5", "copy": "d"},
    ),
    ("unregister consumer c", q.unregister_consumer, {"consumer": "c"}),
    ("unregister consumer * from q", q.unregister_consumer, {"consumer": "*", "queue": "q"}),
    (
        "register subconsumer w for c on q",
        q.register_subconsumer,
        {"subconsumer": "w", "consumer": "c", "queue": "q"},
    ),
    (
        "unregister subconsumer w for c",
        q.unregister_subconsumer,
        {"subconsumer": "w", "consumer": "c"},
    ),
    (
        "unregister subconsumer * for c from q close batch",
        q.unregister_subconsumer,
        {"subconsumer": "*", "consumer": "c", "queue": "q", "close": True},
    ),
    (
        "unregister subconsumer w for c close",
        q.unregister_subconsumer,
        {"subconsumer": "w", "consumer": "c", "close": True},
    ),
    ("londiste add table t", n.add_tables, {"names": ("t",)}),
    (
        "londiste add table a, \"S x.T\" with skip_truncate, tgflags='UIDBAQL', expect_sync,"
        " no_triggers, backup, skip, when='a > 0', ev_extra2='x'",
        n.add_tables,
        {
            "names": ("a", "S x.T"),
            "options": {
                "skip_truncate": None,
                "tgflags": "UIDBAQL",
                "expect_sync": None,
                "no_triggers": None,
                "backup": None,
                "skip": None,
                "when": "a > 0",
                "ev_extra2": "x",
            },
        },
    ),
    ("londiste add sequence s, t", n.add_sequences, {"names": ("s", "t")}),
    ("londiste remove table t, u", n.remove_tables, {"names": ("t", "u")}),
    ("londiste remove sequence s", n.remove_sequences, {"names": ("s",)}),
    ("londiste tables", n.list_tables, {}),
    ("londiste seqs", n.list_sequences, {}),
    ("londiste missing", n.list_missing, {}),
]
SQL = ["select 1", "show work_mem", "create table queue (id int)", "drop table t"]


@pytest.mark.parametrize(("text", "run", "values"), MEANT)
def test_every_form_is_read(text: str, run: Runs, values: dict[str, Any]) -> None:
    assert parse(text, FORMS) == (run, values)
    # The function takes what the form names.
    inspect.signature(run).bind(None, **values)


@pytest.mark.parametrize("text", SQL)
def test_other_text_is_sql(text: str) -> None:
    assert parse(text, FORMS) is None


def test_no_form_is_left_out_above() -> None:
    assert {form.run for form in FORMS} == {run for _, run, _ in MEANT}


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("create queue", "unfinished: create queue", "expected next: a name"),
        ("register cosumer x", "cannot read 'cosumer' after: register", "did you mean consumer?"),
        ("register consumer x onn q", "cannot read 'onn'", "did you mean on?"),
        ("register consumer x on q on r", "cannot read 'on'", "expected at, copy or the end"),
        ("unregister subconsumer w", "unfinished: unregister subconsumer w", "expected next: for"),
        ("alter queue q set", "unfinished", "PARAMETER = VALUE"),
        ("alter queue q set x =", "unfinished", "expected next: a value"),
        ("alter queue q set x = 1, x = 2", "x is given twice", "give it once"),
        ("alter queue q ste x=1", "cannot read 'ste'", "did you mean set?"),
        ("show queue a b", "cannot read 'b'", "the end"),
        ("show batch", "unfinished", "a batch number or a consumer"),
        ("londiste ad table x", "cannot read 'ad'", "did you mean add?"),
        ("londiste add table a,", "unfinished", "a table"),
        ("londiste", "unfinished", "add, missing, remove, seqs or tables"),
        ("connect", "unfinished", "dbname="),
        ("drop queue *", "cannot read '*'", "a queue"),
        ('create queue "never closed', "cannot read", "a name"),
        ("create queue ''", "cannot read", "a name"),
        ("exit now", "cannot read 'now'", "expected the end"),
    ],
)
def test_what_cannot_be_read_is_named_with_what_could_stand_there(
    text: str, error: str, hint: str
) -> None:
    with pytest.raises(BadOption) as caught:
        parse(text, FORMS)
    assert error in caught.value.message
    assert hint in caught.value.hint


CATALOG = Catalog(
    queues=("orders", "a b"),
    consumers={"orders": ("mailer", "mover", "mailer.w1"), "a b": ("other",)},
    subconsumers={("orders", "mailer"): ("w1",)},
    nodes=("root", "leaf"),
    tables=("public.t", "public.two words"),
    sequences=("public.s",),
    databases=("shop",),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cr", ["create"]),
        ("CREATE ", ["queue"]),
        ("create queue ", []),
        ("drop queue o", ["orders"]),
        ("alter queue ", ["*", "orders", '"a b"']),
        ('alter queue "a', ['"a b"']),
        ('alter queue "a b', ['"a b"']),
        ("alter queue orders ", ["set"]),
        ("alter queue orders set rot", ["rotation_period = "]),
        ("alter queue orders set ticker_paused = ", ["true", "false"]),
        ("alter queue orders set ticker_paused = t", ["true"]),
        ("alter queue orders set ticker_paused = true, per", ["per_tx_limit = "]),
        ("show consumer m", ["mailer", "mover", "mailer.w1"]),
        ("show consumer mailer ", ["on"]),
        ("show node ", ["*", "root", "leaf", "on"]),
        ("unregister consumer ", ["*", "mailer", "mover", "mailer.w1", "other"]),
        ("unregister subconsumer ", ["*", "w1"]),
        ("register consumer x ", ["on", "at", "copy"]),
        ("register consumer x on orders ", ["at", "copy"]),
        ('register consumer x on "a b" copy ', ["other"]),
        ("londiste add table ", ["public.t", '"public.two words"']),
        ("londiste add table public.t w", ["with"]),
        ("londiste add table public.t with tg", ["tgflags"]),
        ("londiste add sequence ", ["public.s"]),
        ("londiste ", ["add", "remove", "tables", "seqs", "missing"]),
        ("connect d", ["dbname="]),
        ("connect queue=", ["orders", '"a b"']),
        ("connect dbname=", ["shop"]),
        ("install ", ["pgq", "londiste"]),
        ("select * from public.", ["public.t"]),
        ("select 1; show v", ["version"]),
        ("create\nqu", ["queue"]),
        ("select 'show ", []),
    ],
)
def test_tab_offers_what_may_stand_there(text: str, expected: list[str]) -> None:
    assert complete(text, CATALOG) == expected


def test_the_chosen_queue_narrows_the_consumers() -> None:
    assert complete("show batch ", CATALOG, "a b") == ["other"]
    assert complete("unregister consumer ", CATALOG, "orders") == [
        "*",
        "mailer",
        "mover",
        "mailer.w1",
    ]


def test_what_was_begun_is_the_last_word_with_its_quotes() -> None:
    assert [begun(t) for t in ("a b", "a ", 'x "a b', "", "x;y")] == ["b", "", '"a b', "", "y"]


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("a; b;", ["a", "b"], ""),
        ("a;\nb", ["a"], "\nb"),
        (";;  ; -- nothing;\n", [], ""),
        ("select ';' ; x", ["select ';'"], " x"),
        ("select E'\\';' ; x", ["select E'\\';'"], " x"),
        ("select '\\'; x", ["select '\\'"], " x"),
        ('select ";" ; x', ['select ";"'], " x"),
        ("select $$;$$; select $a$;$$;$a$; x", ["select $$;$$", "select $a$;$$;$a$"], " x"),
        ("select $1; x", ["select $1"], " x"),
        ("a -- ;\n; b", ["a -- ;"], " b"),
        ("a /* ; /* ; */ ; */; b", ["a /* ; /* ; */ ; */"], " b"),
        (
            "create rule r as on insert to t do (a; b); x",
            ["create rule r as on insert to t do (a; b)"],
            " x",
        ),
        (
            "create function f() returns int begin atomic select case when true then 1 end; end; x",
            ["create function f() returns int begin atomic select case when true then 1 end; end"],
            " x",
        ),
        ("begin; x", ["begin"], " x"),
        ("select 'open; x", [], "select 'open; x"),
        ("a /* open; x", [], "a /* open; x"),
        ("select a-b; select a--b\n;", ["select a-b", "select a--b"], ""),
    ],
)
def test_statements_end_at_a_semicolon_that_is_not_inside_something(
    text: str, statements: list[str], rest: str
) -> None:
    assert lexer.split(text) == (statements, rest)


def test_the_options_of_a_table_are_those_of_the_command() -> None:
    options = table_options(
        {"tgflags": "UI", "skip": None, "when": "a > 0", "no_triggers": None, "backup": None}
    )
    assert (options.trigger_flags, options.triggers) == ("UI", False)
    assert options.trigger_args == ("skip", "when=a > 0", "backup")
    for wrong in ({"nope": None}, {"tgflags": None}, {"skip": "x"}):
        with pytest.raises(BadOption):
            table_options(wrong)
