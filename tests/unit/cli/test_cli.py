"""The frame of the command line: forms of the call, errors, exit codes."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

import pytest

from londiste.cli import _old_form, main
from tests.support.programs import forked


def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return forked.run(
        [sys.executable, "-m", "londiste", *args], timeout=60, env={**os.environ, **env}
    )


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["a.ini", "status"], ["-c", "a.ini", "status"]),
        (["-v", "a.ini", "status"], ["-v", "-c", "a.ini", "status"]),
        (["--set", "x=y.ini", "a.toml", "tables"], ["--set", "x=y.ini", "-c", "a.toml", "tables"]),
        (["-c", "a.ini", "status"], ["-c", "a.ini", "status"]),
        (["-d", "a.ini", "worker"], ["-c", "a.ini", "worker", "-d"]),
        (["-s", "a.ini"], ["-c", "a.ini", "worker", "-s"]),
        (["a.ini", "-r"], ["-c", "a.ini", "worker", "-r"]),
        (["-v", "-k", "a.ini", "worker"], ["-v", "-c", "a.ini", "worker", "-k"]),
        (["a.ini", "status", "-v", "-q"], ["-v", "-q", "-c", "a.ini", "status"]),
        (["a.ini", "status", "--set", "x=1"], ["--set", "x=1", "-c", "a.ini", "status"]),
        (["a.ini", "tables", "-v"], ["-c", "a.ini", "tables", "-v"]),
        (["a.ini", "execute", "--", "-v"], ["-c", "a.ini", "execute", "--", "-v"]),
        (["status", "a.ini"], ["status", "a.ini"]),
        ([], []),
    ],
)
def test_the_old_form_of_a_call_means_the_same(given: list[str], meant: list[str]) -> None:
    assert _old_form(given) == meant


@pytest.mark.parametrize(
    ("args", "error", "hint"),
    [
        (["statu"], "error: unknown command statu\n", "did you mean: londiste status"),
        (
            ["create", "root"],
            "error: unknown command create\n",
            "did you mean: londiste create-root",
        ),
        (["add", "tabel", "x"], "error: unknown command add\n", "did you mean: londiste add-table"),
        (
            ["queue", "pause", "consumer", "q"],
            "error: unknown command pause\n",
            "londiste queue pause-consumer",
        ),
        (
            ["--set", "tikcer_period=2", "queue", "list"],
            "error: --set: unknown setting tikcer_period\n",
            "did you mean ticker_period?",
        ),
        (
            ["--set", "ticker_maxlag=1s", "queue", "list"],
            "error: --set: unknown setting ticker_maxlag\n",
            "londiste queue config QUEUE ticker_max_lag=VALUE",
        ),
        (["help", "statu"], "error: unknown command statu\n", "did you mean: londiste status"),
        (["queue", "lst"], "error: unknown command lst\n", "did you mean: londiste queue list"),
        (["migrate", "abort"], "error: unknown command abort\n", "migrate finish --abandon"),
        (["migrate", "rollback"], "error: unknown command rollback\n", "londiste migrate back"),
        # Start is not near to abort, nor --stop to --optio.
        (["abort"], "error: unknown command abort\n", "hint: londiste --help"),
        (["worker", "--optio"], "error: no such option '--optio'\n", "--help"),
        (["status", "--jsn"], "error: no such option '--jsn'. Did you mean '--json'?\n", "--help"),
        (["tables", "--nonsense"], "error: no such option", "--help"),
        (
            ["tables", "--set", "a=b"],
            "error: londiste tables has no option --set\n",
            "londiste --set … tables",
        ),
        (["--set", "novalue", "tables"], "error: --set novalue: must be KEY=VALUE", "--set"),
        (["-c", "/nonexistent.toml", "tables"], "error: /nonexistent.toml: no such file", "config"),
        (["tables"], "error: required setting db is missing", "--save FILE"),
        (
            ["--set", "db=dbname=x", "tables"],
            "error: required setting queue_name is missing",
            "repeat it with --save FILE, which writes a file for -c FILE --node NAME",
        ),
        (["compare", "--engine", "abacus"], "error: invalid value for '--engine'", "--help"),
    ],
)
def test_bad_input_is_one_line_with_a_hint_and_exit_code_2(
    args: list[str], error: str, hint: str
) -> None:
    done = run(*args)
    assert done.returncode == 2
    assert done.stderr.startswith(error)
    assert "Traceback" not in done.stderr
    (line,) = [x for x in done.stderr.splitlines() if x.startswith("hint: ")]
    assert hint in line
    assert done.stdout == ""


def test_an_unknown_crash_point_is_refused() -> None:
    done = run("debug", "crash-points", LONDISTE_CRASH="no.such")
    assert done.returncode == 2
    assert "error: LONDISTE_CRASH: no crash point no.such" in done.stderr


def test_an_unreachable_server_is_exit_code_6() -> None:
    done = run("--set", "db=host=127.0.0.1 port=1 dbname=x", "--set", "queue_name=q", "tables")
    assert done.returncode == 6
    assert done.stderr.startswith("error: x@127.0.0.1:1: ")
    assert "hint: " in done.stderr


def test_completion_scripts_are_printed() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_LONDISTE_COMPLETE" in run("completion", shell).stdout


def test_quiet_leaves_messages_out_and_warnings_in(capsys: pytest.CaptureFixture[str]) -> None:
    from londiste.cli import output

    try:
        output.be_quiet(True)
        output.message("done")
        output.warning("careful")
    finally:
        output.be_quiet(False)
    output.message("more")
    assert capsys.readouterr().err == "warning: careful\nmore\n"


def test_warnings_of_the_driver_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["version"])
    capsys.readouterr()
    shown = logging.lastResort
    assert shown is not None
    for name in ("psycopg", "psycopg.pool", "londiste.db"):
        shown.handle(logging.makeLogRecord({"name": name, "levelname": "WARNING", "levelno": 30}))
    assert capsys.readouterr().err == "warning: \n"


def test_an_argument_that_is_not_text_is_refused() -> None:
    done = run("-c", "x.toml", "add-table", b"sch\xf6n".decode("utf-8", "surrogateescape"))
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: argument sch\\xdcf6n: not valid in the encoding of the locale\nhint: "
    )


def test_a_variable_that_is_not_text_is_named_without_its_value() -> None:
    secret = b"password=hunter2\xf6".decode("utf-8", "surrogateescape")
    done = run("status", LONDISTE_DB=secret)
    assert done.returncode == 2
    assert done.stderr.startswith("error: variable LONDISTE_DB: not valid in the encoding")
    assert "hunter2" not in done.stderr


def test_a_terminal_without_a_character_gets_it_escaped_and_json_stays_json() -> None:
    program = (
        "import click, sys\n"
        "from londiste.cli import errors, output\n"
        "@click.command()\n"
        "def both() -> None:\n"
        "    output.table(['n'], [['ä€']])\n"
        "    output.as_json({'name': 'ä€'})\n"
        "sys.exit(errors.run(both, []))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    heading, row, document = done.stdout.decode("latin-1").splitlines()
    assert (heading, row) == ("n", "ä\\u20ac")
    assert json.loads(document)["name"] == "ä€"


@pytest.mark.parametrize("as_json", [True, False])
def test_an_output_that_is_closed_or_full_is_no_defect_of_ours(as_json: bool) -> None:
    program = (
        "import click, sys\n"
        "from typing import TypedDict\n"
        "from londiste.cli.documents import Rows\n"
        "from londiste.cli import errors, output\n"
        "@click.command()\n"
        "def both() -> None:\n"
        "    rows = Rows('rows', TypedDict('N', {'n': int}))\n"
        f"    output.show(rows, [{{'n': 1}}], json_wanted={as_json})\n"
        "sys.exit(errors.run(both, []))\n"
    )

    def answer(redirection: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", f'exec "$0" -c "$1" {redirection}', sys.executable, program],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    closed, full = answer(">&-"), answer(">/dev/full")
    assert (closed.returncode, closed.stderr) == (0, "")
    assert full.returncode == 1
    assert full.stderr.startswith("error: cannot write the output: No space left on device\n")


@pytest.mark.parametrize(
    "args",
    [
        ("create-branch", "b", "--sync-watermark"),
        ("status", "--dead=n"),
        ("change-provider", "--dead=n"),
        ("takeover", "n", "--target", "m"),
        ("worker", "--reset"),
        ("copy", "-d", "t"),
        ("repair", "t", "--sort-bufsize", "10"),
        ("execute", "f.sql", "--skip-non-existing"),
    ],
)
def test_an_option_that_londiste_3_had_says_what_to_write_instead(
    args: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(args)
    assert "which Londiste 3 had\nhint: " in capsys.readouterr().err


def test_help_and_version_are_commands_and_the_help_begins_with_the_first_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def said(*args: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(args)
        assert ended.value.code == 0
        return capsys.readouterr().out

    assert said("version") == said("--version")
    assert said("help") == said("--help")
    assert said("help", "queue", "create") == said("queue", "create", "--help")
    text = said("help")
    assert text.index("Getting started:") < text.index("Options:") < text.index("Nodes:")


def test_help_and_completion_load_neither_settings_nor_the_driver() -> None:
    def loaded(*args: str, **environment: str) -> str:
        program = (
            "import atexit, sys; from londiste.cli import main\n"
            "slow = ('londiste.settings', 'psycopg', 'pydantic')\n"
            "atexit.register(lambda: print(*(name for name in slow if name in sys.modules)))\n"
            f"main({list(args)})\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, **environment},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for args in (["--help"], ["--version"]):
        *said, last = loaded(*args).splitlines()
        assert said and not last
    for words, word in (("c", "create-root"), ("queue c", "create"), ("copy ", "status")):
        said = loaded(
            _LONDISTE_COMPLETE="bash_complete",
            COMP_WORDS=f"londiste {words}",
            COMP_CWORD=str(words.count(" ") + 1),
        ).splitlines()
        assert f"plain,{word}" in said and not said[-1], said


def test_a_daemon_begins_without_what_it_may_never_need() -> None:
    program = (
        "import sys\n"
        "import londiste.cli.daemons.worker, londiste.replication.worker.worker\n"
        "from londiste import settings\n"
        "slow = ('sqlglot', 'pyspark', 'pandas', 'pyarrow')\n"
        "loaded = [name for name in sys.modules if name.partition('.')[0] in slow]\n"
        "assert not loaded, loaded\n"
        "kinds = settings.Settings.__subclasses__()\n"
        "assert kinds and not any(kind.__pydantic_complete__ for kind in kinds)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
