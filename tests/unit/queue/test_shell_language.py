"""The shell's language: every statement, syntax errors, completions."""

from __future__ import annotations

import pytest

from londiste.errors import BadOption
from londiste.shell import lexer
from londiste.shell import statements as s
from londiste.shell.completion import Catalog, begun, complete
from londiste.shell.language import forms, help_lines, parse
from londiste.shell.session import table_options
from londiste.shell.statements import Statement

FORMS: list[tuple[str, Statement]] = [
    ("connect dbname=shop", s.Connect({"dbname": "shop"})),
    (
        "CONNECT dbname=shop host=/tmp port=5433 user='a b' service=s queue=\"q 1\" node=n2",
        s.Connect(
            {
                "dbname": "shop",
                "host": "/tmp",
                "port": "5433",
                "user": "a b",
                "service": "s",
                "queue": "q 1",
                "node": "n2",
            }
        ),
    ),
    ("connect queue=q, node=n", s.Connect({"queue": "q", "node": "n"})),
    ("install pgq", s.Install("pgq")),
    ("install londiste", s.Install("londiste")),
    ("show version", s.ShowVersion()),
    ("show help", s.ShowHelp()),
    ("help", s.ShowHelp()),
    ("exit", s.Exit()),
    ("Quit", s.Exit()),
    ("create queue q", s.CreateQueue("q")),
    ("Create\n  Queue -- a comment\n 'it''s'", s.CreateQueue("it's")),
    ('create queue "a ""b"" ;"', s.CreateQueue('a "b" ;')),
    ("drop queue a.b-c", s.DropQueue("a.b-c")),
    ("drop queue q force", s.DropQueue("q", True)),
    (
        "alter queue q set ticker_max_lag = '3 seconds', ticker_paused=true",
        s.AlterQueue("q", {"ticker_max_lag": "3 seconds", "ticker_paused": "true"}),
    ),
    (
        "alter queue * set Rotation_Period = 2 hours",
        s.AlterQueue("*", {"rotation_period": "2 hours"}),
    ),
    ("show queue", s.ShowQueue()),
    ("show queue *", s.ShowQueue("*")),
    ("show queue q", s.ShowQueue("q")),
    ("show consumer", s.ShowConsumer()),
    ("show consumer c", s.ShowConsumer("c")),
    ("show consumer * on q", s.ShowConsumer("*", "q")),
    ("show consumer on q", s.ShowConsumer("*", "q")),
    ("show node", s.ShowNode()),
    ("show node * on q", s.ShowNode("*", "q")),
    ("show node n", s.ShowNode("n")),
    ("show batch 12", s.ShowBatch("12")),
    ("show batch c", s.ShowBatch("c")),
    ("show table public.t", s.ShowTable("public.t")),
    ("show sequence s", s.ShowSequence("s")),
    ("register consumer c", s.RegisterConsumer("c")),
    ("register consumer c on q at 5", s.RegisterConsumer("c", "q", "5")),
    ("register consumer c copy d on q", s.RegisterConsumer("c", "q", copy="d")),
    ("register consumer c at 5 copy d", s.RegisterConsumer("c", tick="5", copy="d")),
    ("unregister consumer c", s.UnregisterConsumer("c")),
    ("unregister consumer * from q", s.UnregisterConsumer("*", "q")),
    ("register subconsumer w for c on q", s.RegisterSubconsumer("w", "c", "q")),
    ("unregister subconsumer w for c", s.UnregisterSubconsumer("w", "c")),
    (
        "unregister subconsumer * for c from q close batch",
        s.UnregisterSubconsumer("*", "c", "q", True),
    ),
    ("unregister subconsumer w for c close", s.UnregisterSubconsumer("w", "c", None, True)),
    ("londiste add table t", s.AddTables(("t",))),
    (
        "londiste add table a, \"S x.T\" with skip_truncate, tgflags='UIDBAQL', expect_sync,"
        " no_triggers, backup, skip, when='a > 0', ev_extra2='x'",
        s.AddTables(
            ("a", "S x.T"),
            {
                "skip_truncate": None,
                "tgflags": "UIDBAQL",
                "expect_sync": None,
                "no_triggers": None,
                "backup": None,
                "skip": None,
                "when": "a > 0",
                "ev_extra2": "x",
            },
        ),
    ),
    ("londiste add sequence s, t", s.AddSequences(("s", "t"))),
    ("londiste remove table t, u", s.RemoveTables(("t", "u"))),
    ("londiste remove sequence s", s.RemoveSequences(("s",))),
    ("londiste tables", s.ListTables()),
    ("londiste seqs", s.ListSequences()),
    ("londiste missing", s.ListMissing()),
    ("select 1", s.Sql("select 1")),
    ("show work_mem", s.Sql("show work_mem")),
    ("create table queue (id int)", s.Sql("create table queue (id int)")),
    ("drop table t", s.Sql("drop table t")),
]


@pytest.mark.parametrize(("text", "meant"), FORMS)
def test_every_form_is_read(text: str, meant: Statement) -> None:
    assert parse(text) == meant


def test_no_form_is_left_out_above() -> None:
    assert {form.build for form in forms()} | {s.Sql} == {type(meant) for _, meant in FORMS}
    assert len(help_lines()) == len(forms()) + 1


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
        parse(text)
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
