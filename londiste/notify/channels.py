"""Channels of notifications: a webhook, and a command.  No error contains a secret."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import threading
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from londiste import __version__
from londiste.errors import BadOption, TransientError
from londiste.wording import bounded

#: Begin of the variables that are settings, and may be secrets.
_SETTINGS = ("LONDISTE_", "PG")
#: Answers about the message: bad request, too large, cannot be processed.
_PERMANENT = frozenset((400, 413, 422))
#: Characters of a value: Linux takes 128 KiB, and a character has up to 4 bytes.
_LONGEST_VALUE = 30_000


class Undelivered(TransientError):
    """A channel did not take a message."""


class Refused(Undelivered):
    """A channel does not take this message, however often it is sent."""


class Channel(Protocol):
    """Takes messages.

    name -- webhook or command.  place -- where it leads, for people; without a secret.
    """

    name: str
    place: str

    def deliver(self, name: str, body: str) -> None:
        """Delivers a message with its id.  Raises Undelivered, Refused for this message only."""


class Webhook:
    """Posts a message to a URL; redirects are not followed.

    With a secret: header ``Londiste-Signature`` is ``sha256=`` and the HMAC of ``TIMESTAMP.BODY``.
    """

    name = "webhook"

    def __init__(self, url: str, secret: bytes, seconds: float) -> None:
        self._url = _checked(url)
        self._secret = secret
        self._seconds = seconds
        # Path and query of a URL are a secret at many services.
        port = f":{self._url.port}" if self._url.port else ""
        self.place = f"{self._url.scheme}://{self._url.hostname}{port}"

    def deliver(self, name: str, body: str) -> None:
        data = body.encode("ascii")
        moment = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"londiste/{__version__}",
            "Londiste-Id": name,
            "Londiste-Timestamp": moment,
        }
        if self._secret:
            headers["Londiste-Signature"] = signature(self._secret, moment, data)
        if self._url.username:
            user = f"{unquote(self._url.username)}:{unquote(self._url.password or '')}"
            headers["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
        target = self._url.path or "/"
        if self._url.query:
            target += f"?{self._url.query}"
        connection = self._connection()
        # The timeout of a socket is for one read; this one is for the whole answer.
        timer = threading.Timer(self._seconds, _break_off, (connection,))
        timer.start()
        try:
            connection.request("POST", target, data, headers)
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Undelivered(
                f"webhook {self.place}: {reason}", hint="check the setting webhook of [notify]"
            ) from None
        finally:
            timer.cancel()
            connection.close()
        if not 200 <= answer.status < 300:
            kind = Refused if answer.status in _PERMANENT else Undelivered
            raise kind(
                f"webhook {self.place} answers {answer.status} {answer.reason}",
                hint="check the setting webhook of [notify], and the log of the receiver",
            )

    def _connection(self) -> http.client.HTTPConnection:
        host = self._url.hostname or ""
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, self._url.port, timeout=self._seconds)
        return http.client.HTTPSConnection(
            host, self._url.port, timeout=self._seconds, context=ssl.create_default_context()
        )


def _break_off(connection: http.client.HTTPConnection) -> None:
    sock = connection.sock
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def signature(secret: bytes, moment: str, body: bytes) -> str:
    """The value of ``Londiste-Signature``."""
    return "sha256=" + hmac.new(secret, moment.encode() + b"." + body, hashlib.sha256).hexdigest()


def _checked(url: str) -> SplitResult:
    try:
        found = urlsplit(url)
        _ = found.port
    except ValueError:
        found = SplitResult("", "", "", "", "")
    if found.scheme not in ("http", "https") or not found.hostname or not url.isprintable():
        raise BadOption(
            "webhook: not a URL of http or https", hint='write webhook = "https://host/path"'
        )
    if any(not 32 < ord(one) < 127 for one in found.path + found.query):
        raise BadOption(
            "webhook: characters that a URL cannot contain", hint="encode them: %20 for a blank"
        )
    return found


class Command:
    """Starts a program without a shell; the message is its standard input and its environment."""

    name = "command"

    def __init__(self, argv: Sequence[str], seconds: float, hidden: Sequence[str] = ()) -> None:
        self._argv = tuple(argv)
        self._seconds = seconds
        self._hidden = set(hidden)
        self.place = Path(argv[0]).name

    def deliver(self, name: str, body: str) -> None:
        try:
            process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(os.environ, json.loads(body), self._hidden),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Undelivered(
                f"command {self.place} cannot be started: {reason}",
                hint="check the setting command of [notify]",
            ) from None
        try:
            process.communicate(body.encode() + b"\n", timeout=self._seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Undelivered(
                f"command {self.place} did not end within {self._seconds:g} s",
                hint="correct the command, or set timeout in [notify]",
            ) from None
        if process.returncode != 0:
            how = (
                f"signal {-process.returncode}"
                if process.returncode < 0
                else f"exit code {process.returncode}"
            )
            raise Undelivered(f"command {self.place} ended with {how}", hint="run it in a terminal")


def environment(
    given: Mapping[str, str], message: Mapping[str, Any], hidden: set[str]
) -> dict[str, str]:
    """Pure: the environment of a command: the message, and no setting or password of Londiste.

    Values are cut: the kernel starts no command whose variables are too long, and the channel,
    which keeps the order of its messages, would deliver none any more.
    """
    found = {
        key: value
        for key, value in given.items()
        if not key.startswith(_SETTINGS) and key not in hidden
    }
    flat = {**message, **message.get("finding", {})}
    for key, value in flat.items():
        if not isinstance(value, dict):
            text = "" if value is None else str(value).replace("\0", "")
            found[f"LONDISTE_NOTIFY_{key.upper()}"] = bounded(text, _LONGEST_VALUE)
    return found


def secret_of(file: Path | None, variable: str) -> bytes:
    """The secret in a file, or in a variable of the environment; empty without either.

    Raises BadOption; no message contains it.
    """
    if file is not None and variable:
        raise BadOption(
            "webhook_secret_file and webhook_secret_env are both set", hint="set one of them"
        )
    if variable:
        value = os.environ.get(variable, "").encode()
        if not value:
            raise BadOption(
                f"webhook_secret_env: variable {variable} is empty or not set",
                hint=f"set {variable} in the environment of this process",
            )
        return value
    if file is None:
        return b""
    try:
        mode = file.stat().st_mode
        value = file.read_bytes().strip()
    except OSError as error:
        raise BadOption(
            f"webhook_secret_file {file}: {error.strerror}", hint="correct webhook_secret_file"
        ) from None
    if stat.S_IMODE(mode) & 0o007:
        raise BadOption(
            f"webhook_secret_file {file}: other users can read it", hint=f"chmod 600 {file}"
        )
    if not value:
        raise BadOption(f"webhook_secret_file {file}: empty", hint="write the secret into it")
    return value
