"""Messages reach a real HTTP server and a real program, signed, and without secrets."""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from londiste.errors import BadOption
from londiste.notify.channels import Command, Undelivered, Webhook, environment, secret_of
from londiste.notify.notifier import body, deliver_test, message_of_test
from tests.support.http.receiver import Receiver, receiver

SECRET = b"of-the-webhook"
MESSAGE = body(message_of_test("shöp", 1_700_000_000.5))


@pytest.fixture
def server() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def test_a_message_is_posted_with_a_signature_over_time_and_body(server: Receiver) -> None:
    url = server.url.replace("//", "//user:pass%21@") + "/hook/token?x=1"
    hook = Webhook(url, SECRET, 5)
    hook.deliver("id-1", MESSAGE)
    (got,) = server.got
    assert got.path == "/hook/token?x=1"
    assert got.headers["londiste-id"] == "id-1"
    assert abs(int(got.headers["londiste-timestamp"]) - time.time()) < 60
    signed = got.headers["londiste-timestamp"].encode() + b"." + got.body
    expected = hmac.new(SECRET, signed, hashlib.sha256).hexdigest()
    assert got.headers["londiste-signature"] == f"sha256={expected}"
    assert got.headers["authorization"] == "Basic dXNlcjpwYXNzIQ=="
    assert got.message["finding"]["queue"] == "shöp"
    assert (got.message["event"], got.message["time"]) == ("test", "2023-11-14T22:13:20.500Z")
    assert hook.place == server.url


def test_without_a_secret_there_is_no_signature(server: Receiver) -> None:
    Webhook(server.url, b"", 5).deliver("x", MESSAGE)
    assert "londiste-signature" not in server.got[0].headers


@pytest.mark.parametrize("status", [301, 400, 404, 429, 500])
def test_every_other_answer_is_a_failure_and_no_redirect_is_followed(
    server: Receiver, status: int
) -> None:
    server.status, server.headers = status, {"Location": f"{server.url}/other"}
    with pytest.raises(Undelivered, match=f"answers {status}") as caught:
        Webhook(f"{server.url}/token", SECRET, 5).deliver("x", MESSAGE)
    assert len(server.refused) == 1
    assert "token" not in str(caught.value) and SECRET.decode() not in repr(caught.value)


def test_a_server_that_is_silent_or_gone_is_a_failure_in_time(server: Receiver) -> None:
    server.status = 0
    started = time.monotonic()
    with pytest.raises(Undelivered, match="webhook http://127"):
        Webhook(server.url, SECRET, 0.2).deliver("x", MESSAGE)
    assert time.monotonic() - started < 5
    with pytest.raises(Undelivered, match="refused"):
        Webhook("http://127.0.0.1:1/token", SECRET, 5).deliver("x", MESSAGE)


@pytest.mark.parametrize(
    "url",
    ["host/path", "ftp://host", "http://", "http://h:x", "https://h/a b", "http://h/\r\nX: y"],
)
def test_a_wrong_url_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(BadOption) as caught:
        Webhook(url, b"", 1)
    assert url not in caught.value.message


WRITES = (
    "import json,os,sys; json.dump([json.load(sys.stdin), dict(os.environ), sys.argv[1:]],"
    " open(sys.argv[1], 'w'))"
)


def test_a_command_gets_the_message_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGPASSWORD", "LONDISTE_DB", "HOOK_SECRET"):
        monkeypatch.setenv(name, "hidden")
    out = tmp_path / "out"
    argv = [sys.executable, "-c", WRITES, str(out), "$HOME; true"]
    Command(argv, 20, ["HOOK_SECRET"]).deliver("x", MESSAGE)
    message, environ, words = json.loads(out.read_text())
    assert message == json.loads(MESSAGE)
    assert words[1:] == ["$HOME; true"]
    assert environ["LONDISTE_NOTIFY_EVENT"] == "test"
    assert environ["LONDISTE_NOTIFY_WHAT"] == "a test of the notifications"
    assert environ["LONDISTE_NOTIFY_NODE"] == ""
    assert "hidden" not in environ.values() and environ["PATH"]


def test_a_long_text_reaches_a_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    message = json.loads(MESSAGE)
    message["finding"]["what"] = "boom " + "\N{PILE OF POO}" * 200_000
    argv = [sys.executable, "-c", WRITES, str(out)]
    Command(argv, 20).deliver("x", json.dumps(message))
    found, environ, _ = json.loads(out.read_text())
    assert found == message
    assert environ["LONDISTE_NOTIFY_WHAT"].endswith("… (of 200,005 characters)")


def test_a_command_that_fails_hangs_or_is_missing_is_a_failure(tmp_path: Path) -> None:
    for code, reason in (
        ("exit(3)", "exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9"),
    ):
        with pytest.raises(Undelivered, match=reason):
            Command([sys.executable, "-c", code], 20).deliver("x", MESSAGE)
    with pytest.raises(Undelivered, match="did not end within"):
        Command([sys.executable, "-c", "import time; time.sleep(60)"], 0.2).deliver("x", MESSAGE)
    with pytest.raises(Undelivered, match="No such file"):
        Command([str(tmp_path / "none")], 1).deliver("x", MESSAGE)


def test_one_channel_that_fails_does_not_stop_the_others(server: Receiver, tmp_path: Path) -> None:
    found = deliver_test([Command([str(tmp_path / "none")], 1), Webhook(server.url, b"", 5)], "q")
    assert [bool(error) for error in found.values()] == [True, False]
    assert len(server.got) == 1


def test_a_secret_is_read_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text(" of-the-webhook\n")
    file.chmod(0o640)
    monkeypatch.setenv("HOOK_SECRET", "of-the-webhook")
    assert secret_of(file, "") == secret_of(None, "HOOK_SECRET") == SECRET
    assert secret_of(None, "") == b""
    file.chmod(0o644)
    monkeypatch.setenv("EMPTY", "")
    wrong = ((file, ""), (file, "HOOK_SECRET"), (None, "EMPTY"), (tmp_path / "none", ""))
    for path, variable in wrong:
        with pytest.raises(BadOption) as caught:
            secret_of(path, variable)
        assert SECRET.decode() not in str(caught.value) + caught.value.hint


def test_a_message_cannot_end_a_variable() -> None:
    found = environment({"A": "1", "PGHOST": "x"}, {"id": "a\0b", "finding": {"what": None}}, {"B"})
    assert found == {"A": "1", "LONDISTE_NOTIFY_ID": "ab", "LONDISTE_NOTIFY_WHAT": ""}
