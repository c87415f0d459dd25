"""Variables by which processes of Londiste talk to each other: wrong ones are one-line errors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.daemon.arguments import without_secrets
from londiste.dsn import SECRETS

HIDDEN = "LONDISTE_HIDDEN_ARGUMENTS"


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("host=a password=s3cret dbname=b", "host=a password=*** dbname=b"),
        ("host=a password = 's3 \\'cret' dbname=b", "host=a password = *** dbname=b"),
        ("password='s3cret dbname=b", "password=***"),
        ("password=s3\\ cret dbname=b", "password=*** dbname=b"),
        ("--db=sslpassword=s3cret", "--db=sslpassword=***"),
        ("postgresql://u:s3cret@h:1/d?x=y", "postgresql://u:***@h:1/d?x=y"),
        ("postgresql://u:s3@cr/et@h/d", "postgresql://u:***@h/d"),
        ("postgresql://h/d?password=s3cret&x=y", "postgresql://h/d?password=***"),
        ("db=postgres://u:s3cret@h/d", "db=postgres://u:***@h/d"),
        ("obfuscator_key=s3cret", "obfuscator_key=***"),
        ("webhook=https://h/s3cret", "webhook=***"),
        ('lake_storage={k="s3cret"}', "lake_storage=***"),
        ("webhook_secret_env=NAME", "webhook_secret_env=NAME"),
        ("spark.hadoop.fs.s3a.secret.key=s3 cret", "spark.hadoop.fs.s3a.secret.key=***"),
        ("--set=spark.ssl.keyPassword=s3cret", "--set=spark.ssl.keyPassword=***"),
        ("spark.master=local[2]", "spark.master=local[2]"),
        ("postgresql://u@h:5432/d", "postgresql://u@h:5432/d"),
        ("public.password", "public.password"),
        ("--where", "--where"),
    ],
)
def test_no_secret_of_an_argument_is_shown(word: str, shown: str) -> None:
    assert without_secrets(word) == shown


def test_every_secret_of_libpq_is_hidden() -> None:
    for name in SECRETS:
        assert without_secrets(f"{name}=x") == f"{name}=***"


def test_the_list_of_processes_shows_no_password_and_the_command_has_it() -> None:
    program = (
        "import pathlib, sys; from londiste.daemon.arguments import hide_arguments\n"
        "hide_arguments()\n"
        "print(pathlib.Path('/proc/self/cmdline').read_bytes()); print(sys.argv[1:])"
    )
    words = ["a", "password=s3cret host=b", "ä"]
    environment = {key: value for key, value in os.environ.items() if key != HIDDEN}
    for text in (None, "", "no json", "[]", "null", '{"1": 2}'):
        if text is not None:
            environment[HIDDEN] = text
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        listed, given = done.stdout.splitlines()
        if text is None:
            assert "s3cret" not in listed and "password=*** host=b" in listed
        assert given == str(words) or text == '{"1": 2}'


@pytest.mark.parametrize(("file", "parent"), [("x", "1"), ("9999", "1"), ("0", "y"), ("-1", "1")])
def test_a_parent_that_is_none_is_refused(
    file: str,
    parent: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LONDISTE_PARENT_FILE", file)
    monkeypatch.setenv("LONDISTE_PARENT_PID", parent)
    monkeypatch.setenv("LONDISTE_PARENT_SIGNAL", "")
    assert run(cli, ["version"]) == 2
    assert "hint: unset LONDISTE_PARENT_FILE" in capsys.readouterr().err
