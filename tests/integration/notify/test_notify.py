"""The notifier beside real daemons: it loses and repeats nothing, and never stops replication."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.one_file import OneFile
from tests.fixtures.process import Program
from tests.support.http.receiver import Receiver, receiver
from tests.support.waiting import wait_for

WRITES = "import os,sys; open(sys.argv[1],'a').write(os.environ['LONDISTE_NOTIFY_EVENT']+chr(10))"

FILE = """
[tables]
include = ["a"]
[worker]
engine = "local"
poll_interval = 0.2
[run]
max_retry_delay = 0.5
[notify]
after = 2
check_period = 0.3
max_retry_delay = 1
webhook = "{url}/very-secret-path"
webhook_secret_file = "{secret}"
command = {command}
"""


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


@pytest.mark.slow
def test_run_notifies_and_survives_a_webhook_that_fails_and_a_kill(
    one_file: OneFile, program: Callable[..., Program], hook: Receiver, tmp_path: Path
) -> None:
    secret, told = tmp_path / "secret", tmp_path / "told"
    secret.write_text("signing-key")
    secret.chmod(0o600)
    command = json.dumps([sys.executable, "-c", WRITES, str(told)])
    one_file.write(
        {"n1": "root", "n2": "leaf of n1"},
        FILE.format(url=hook.url, secret=secret, command=command),
    )
    one_file.db["n1"].execute("create table a (id int primary key, v text)")
    assert one_file("apply").code == 0
    runs = program("-c", str(one_file.path), "run")
    leaf = one_file.db["n2"]

    def replicated(number: int) -> None:
        one_file.db["n1"].execute("insert into a values (%s, 'x')", number)
        count = "select count(*) from a where id = %s"
        wait_for(lambda: leaf.value(count, number) == 1, what=f"row {number}")

    replicated(1)
    # The webhook fails: the command still gets the message, and status shows the failure.
    hook.status = 500
    assert one_file("--node", "n2", "pause").code == 0
    wait_for(lambda: told.exists() and "begins" in told.read_text(), what="the command")
    wait_for(lambda: hook.refused, what="an attempt")
    runs.says("answers 500")
    wait_for(lambda: "FAILING: webhook" in one_file("status").out, what="the failure in status")
    assert one_file("--node", "n2", "resume").code == 0
    replicated(2)
    # A kill of the notifier loses nothing and repeats nothing that was taken.
    pid = re.findall(r"notify started with process id (\d+)", runs.text)[-1]
    os.kill(int(pid), signal.SIGKILL)
    runs.says("notify started with", times=2)
    hook.status = 204
    paused = ("paused", "n2")
    wait_for(lambda: ("ends", *paused) in hook.events(), what="the end")
    wait_for(lambda: told.read_text().split()[-1:] == ["ends"], what="the end for the command")
    events = [event for event, *of in hook.events() if tuple(of) == paused]
    assert events == ["begins", "ends"]
    ids = [one.headers["londiste-id"] for one in hook.got]
    assert len(set(ids)) == len(ids)
    wait_for(lambda: "FAILING" not in one_file("status").out, what="the recovery in status")
    replicated(3)
    runs.signal(signal.SIGTERM)
    assert runs.end(within=60) == 0
    for text in (runs.text, one_file("status").out):
        assert "signing-key" not in text and "very-secret-path" not in text
    assert "notify" not in one_file("status").out


def test_a_test_message_reaches_every_channel_or_names_what_failed(
    one_file: OneFile, hook: Receiver, tmp_path: Path
) -> None:
    secret, told = tmp_path / "secret", tmp_path / "told"
    secret.write_text("signing-key")
    secret.chmod(0o600)
    command = json.dumps([sys.executable, "-c", WRITES, str(told)])
    text = FILE.format(url=hook.url, secret=secret, command=command)
    one_file.write({"n1": "root"}, text)
    done = one_file("notify", "--test")
    assert (done.code, done.out) == (0, "")
    assert done.err.count("delivered") == 2 and "very-secret-path" not in done.err
    assert hook.events() == [("test", "test", None)] and told.read_text() == "test\n"
    hook.status = 403
    failed = one_file("notify", "--test")
    assert failed.code == 6
    assert "answers 403" in failed.err and "1 of 2 channels" in failed.err


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("", "no channel for notifications"),
        ('webhook = "ftp://x"', "not a URL of http or https"),
        ('command = "page me"', "command: "),
        ('webhok = "x"', "did you mean webhook"),
        ('command = ["x"]\nwebhook_secret_env = "A"\nafter = -1', "after: "),
        ('webhook = "http://x"\nwebhook_secret_env = "UNSET_X"', "UNSET_X is empty or not set"),
    ],
)
def test_a_wrong_section_is_one_error(one_file: OneFile, keys: str, words: str) -> None:
    one_file.write({"n1": "root"}, f"\n[notify]\n{keys}\n", pgq=False)
    refused = one_file("notify")
    assert refused.code == 2, refused.err
    assert words in refused.err and "hint: " in refused.err and "Traceback" not in refused.err


def test_once_is_for_cron(one_file: OneFile, hook: Receiver, tmp_path: Path) -> None:
    keys = f'\n[notify]\nafter = 0\nwebhook = "{hook.url}"\nstate_file = "{tmp_path}/state"\n'
    one_file.write({"n1": "root"}, keys)
    # No node there: no node answers.
    assert one_file("notify", "--once").code == 0
    assert hook.events() == [("begins", "unreachable", None)]
    hook.status = 500
    assert one_file("apply").code == 0
    failed = one_file("notify", "--once")
    assert failed.code == 6 and "could not be delivered" in failed.err
    hook.status = 204
    assert one_file("notify", "--once").code == 0
    assert ("ends", "unreachable", None) in hook.events()
