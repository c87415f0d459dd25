"""Programs of earlier versions without a server: command lines, settings, names, errors."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from londiste.cli import _old_form, cli
from londiste.cli.entry.common import Line, parse
from londiste.cli.entry.pgqadm import administer
from londiste.cli.entry.pgqadm import settings as ticker_settings
from londiste.cli.entry.table_dispatcher import _run as dispatch
from londiste.cli.entry.table_dispatcher import settings as dispatcher_settings
from londiste.cli.errors import run as run_command
from londiste.compat import skytools
from londiste.db.names import TableName
from londiste.errors import BadOption, LondisteError, StateError, UsageError
from londiste.handlers.partitions import Partitioning, Period


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path / "job.ini"


def config(conf: Path, text: str) -> skytools.Config:
    conf.write_text(f"[job]\n{text}\n")
    return skytools.Config("job", conf)


class Script(skytools.DBScript):
    def __init__(self, conf: Path, *options: str) -> None:
        skytools.DBScript.__init__(self, "job", [str(conf), *options])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("x.ini ticker -d", Line("x.ini", ("-d",), ("ticker",))),
        ("-d x.ini ticker", Line("x.ini", ("-d",), ("ticker",))),
        ("-dv x.ini", Line("x.ini", ("-d", "-v"), ())),
        ("--set a=1 x.ini status", Line("x.ini", ("--set", "a=1"), ("status",))),
        ("x.ini create -- -q", Line("x.ini", (), ("create", "-q"))),
    ],
)
def test_options_stand_before_and_after_the_file(words: str, line: Line) -> None:
    assert parse(words.split(), "pgqadm", "FILE.ini") == line


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_usage_needs_no_file(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert administer([option]) == dispatch([option]) == 0
    assert capsys.readouterr().out.count("FILE.ini") == 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("", "no settings file given"),
        ("{} status --nonsense", "no such option: --nonsense"),
        ("{} status now", "unexpected word: now"),
        ("{} config q other", "unexpected word: other"),
        ("{} nonsense", "unknown command nonsense"),
        ("{}", "unknown command"),
    ],
)
def test_words_without_a_meaning_are_refused(conf: Path, words: str, text: str) -> None:
    conf.write_text("[pgqadm]\ndb = dbname=nowhere host=127.0.0.1 port=1\n")
    with pytest.raises(UsageError, match=text):
        administer(words.format(conf).split())
    conf.write_text("[table_dispatcher]\n")
    with pytest.raises(UsageError, match="unexpected word: start"):
        dispatch([str(conf), "start"])


def test_lists_and_names_of_settings_are_read_as_then(conf: Path) -> None:
    cf = config(conf, "Tables = a ,\tb,,\n   c,\n  # no table\n  d\nflag = On\nnone =")
    assert cf.getlist("tables") == ["a", "b", "c", "d"]
    assert cf.getlist("none", ["x"]) == ["x"]
    assert cf.getlist("none") == []
    assert cf.getboolean("FLAG")
    assert cf.has_option("FLAG")
    assert (cf.get("none"), cf.get("none", "x"), cf.get("job_name")) == ("", "x", "job")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("loop_delay = 5 ; seconds", "loop_delay is '5 ; seconds', not a number", "its own"),
        ("loop_delay = five", "loop_delay is 'five', not a number", "correct loop_delay"),
        ("other = 1", "setting loop_delay is missing", "loop_delay = "),
    ],
)
def test_a_wrong_value_is_named(conf: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(BadOption) as raised:
        config(conf, text).getfloat("loop_delay")
    assert message in raised.value.message
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "setting db is missing in section [pgqadm]"),
        ("db =", "setting db is empty in section [pgqadm]"),
        ("db = x\nloop_delay = abc", "setting loop_delay is 'abc', not a number"),
        ("db = x\nmaint_delay_min = abc", "setting maint_delay_min is 'abc', not a number"),
    ],
)
def test_settings_of_the_administration_are_named_as_in_its_file(
    conf: Path, text: str, message: str
) -> None:
    conf.write_text(f"[pgqadm]\n{text}\n")
    with pytest.raises(BadOption) as raised:
        administer([str(conf), "ticker"])
    assert raised.value.message == f"{conf}: {message}"


def test_the_ticker_gets_the_settings_of_the_administration(conf: Path) -> None:
    conf.write_text("[pgqadm]\ndb = dbname=x\nloop_delay = 0.5\nmaint_delay_min = 2\n")
    assert ticker_settings(skytools.Config("pgqadm", conf)) == {
        "db": "dbname=x",
        "ticker_period": "0.5",
        "maint_period": "120.0",
    }


@pytest.mark.parametrize("words", ["provider install", "subscriber add t", "replay"])
@pytest.mark.parametrize("missing", ["provider_db", "subscriber_db", "pgq_queue_name"])
def test_a_pair_without_a_setting_does_nothing(
    conf: Path, missing: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {"provider_db": "dbname=a", "subscriber_db": "dbname=b", "pgq_queue_name": "q"}
    del keys[missing]
    lines = "".join(f"{key} = {value}\n" for key, value in keys.items())
    conf.write_text(f"[londiste]\n{lines}")
    assert run_command(cli, _old_form([str(conf), *words.split()])) == 2
    (error, hint) = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {conf}: ")
    assert missing in error
    assert hint.startswith("hint: ")


def test_a_setting_that_is_missing_outside_the_methods_is_one_line(
    conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    conf.write_text("[job]\n")
    script = Script(conf)
    # What the interpreter does with an error of the program's own __init__.
    try:
        script.cf.get("table_name")
    except BadOption as error:
        with pytest.raises(SystemExit) as ended:
            sys.excepthook(type(error), error, error.__traceback__)
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"error: {conf}: setting table_name is missing in section [job]"
    assert len(lines) == 2
    sys.excepthook(ValueError, ValueError("of the program"), None)
    assert "ValueError: of the program" in capsys.readouterr().err


def test_a_generator_as_method_is_an_error_and_no_success(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Yielding(Script):
        def work(self) -> Any:
            yield 1

    conf.write_text("[job]\nloop_delay = 0\n")
    with pytest.raises(SystemExit) as ended:
        Yielding(conf).start()
    assert ended.value.code == StateError("").exit_code
    assert "returned a generator and did nothing" in capsys.readouterr().err


def test_a_program_can_read_another_section_and_have_options_of_its_own(conf: Path) -> None:
    class Own(Script):
        def init_optparse(self, parser: Any = None) -> Any:
            parser = Script.init_optparse(self, parser)
            parser.add_option("--size", type="int", default=1)
            return parser

        def load_config(self) -> skytools.Config:
            return skytools.Config("other", self.args[0])

    conf.write_text("[job]\nv = 1\n[other]\nv = 2\n")
    assert Script(conf).cf.get("v") == "1"
    assert Script(conf, "--set", "v=9").cf.get("v") == "9"
    script = Own(conf, "--size", "7")
    assert (script.cf.get("v"), script.options.size, script.job_name) == ("2", 7, "job")


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("users", '"public"."users"'),
        ("app.users", '"app"."users"'),
        ("app.a.b", '"app"."a.b"'),
        ('x"; drop', '"public"."x""; drop"'),
    ],
)
def test_names_are_quoted_as_the_queue_writes_them(name: str, quoted: str) -> None:
    assert skytools.quote_fqident(name) == quoted


def test_words_of_a_template_are_names_and_no_sql() -> None:
    parts = Partitioning(Period.DAY, "", "", "create table %(part)s ()", "", "", "", False)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    names = (TableName("public", "t"), TableName("a", "x y;z"))
    words = parts._words(*names, at, ["Id", "order"], "at")
    assert (words["pkeys"], words["part"]) == ('"Id","order"', '"a"."x y;z"')
    assert words["schema_table"] == "a__x_y_z"


def test_a_template_is_taken_with_its_percent_signs(conf: Path) -> None:
    conf.write_text(
        "[table_dispatcher]\nsrc_db = a\ndst_db = b\ndest_table = t\npgq_queue_name = q\n"
        "part_field = made\n"
        "part_method = monthly\npart_template = create table _DEST_TABLE ();\n"
        "  comment on table _DEST_TABLE is '100%% _PKEY';\n"
    )
    found = dispatcher_settings(skytools.Config("table_dispatcher", conf))
    assert found["part_template"] == (
        "create table %(part)s ();\ncomment on table %(part)s is '100%% %(pkeys)s';"
    )
    assert (found["period"], found["event_types"], found["consumer_name"]) == ("month", "I", "job")
    conf.write_text(conf.read_text().replace("monthly", "weekly"))
    with pytest.raises(LondisteError, match="part_method is 'weekly'"):
        dispatcher_settings(skytools.Config("table_dispatcher", conf))
