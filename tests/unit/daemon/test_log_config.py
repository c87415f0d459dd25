"""Log configuration: file formats, precedence of -q and -v, handlers, errors."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from londiste.daemon import logcontext
from londiste.daemon import logging as ours
from londiste.daemon.logging import LogTarget, setup
from londiste.daemon.loop import report
from londiste.errors import BadOption, StateError
from londiste.settings import TickerSettings, WorkerSettings, load

log = logging.getLogger("londiste.test")

JSON_TO_FILE = """
[formatters.json]
class = "londiste.daemon.logjson.Json"
[handlers.file]
class = "londiste.daemon.loghandlers.RotatingFile"
filename = "{path}"
formatter = "json"
[root]
handlers = ["file"]
"""

HOSTILE = 'line\nbreak \x1b[31mred\x1b[0m \ud800 half \x00 zero \u2028 "quoted" \\ %s'


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    loggers = {name: logging.getLogger(name) for name in ("", "londiste", "psycopg")}
    levels = {name: logger.level for name, logger in loggers.items()}
    kept = loggers[""].handlers[:]
    yield
    for logger in loggers.values():
        for handler in logger.handlers[:]:
            if handler not in kept:
                logger.removeHandler(handler)
                handler.close()
    for handler in kept:
        if handler not in loggers[""].handlers:
            loggers[""].addHandler(handler)
    for name, logger in loggers.items():
        logger.setLevel(levels[name])
    ours._applied = None


def configured(tmp_path: Path, text: str, name: str = "log.toml", **options: Any) -> None:
    config = tmp_path / name
    config.write_text(text, encoding="utf-8")
    setup(target=LogTarget(config=config, job="my job"), **options)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


# -- JSON lines ----------------------------------------------------------------------------


def test_a_json_line_has_every_field(tmp_path: Path) -> None:
    configured(tmp_path, JSON_TO_FILE.format(path=tmp_path / "out"))
    log.info("unbound")
    with logcontext.bound(job="j", queue="q", consumer="c", batch=3, tick=4, table="public.t"):
        report(StateError("wrong moment", detail="why", hint="what to do"))
    plain, error = lines(tmp_path / "out")
    assert [plain[f] for f in ("level", "logger", "message")] == [
        "INFO",
        "londiste.test",
        "unbound",
    ]
    assert [plain[f] for f in logcontext.FIELDS] == [None] * 7
    assert plain["pid"] and plain["host"] == socket.gethostname()
    assert plain["time"][-6] in "+-" and "T" in plain["time"]
    assert [error[f] for f in logcontext.FIELDS] == [None, None, "j", "q", "c", 3, 4]
    assert [error[f] for f in ("table", "error", "detail", "hint")] == [
        "public.t",
        "StateError",
        "why",
        "what to do",
    ]


def test_hostile_values_stay_in_one_line_that_can_be_read(tmp_path: Path) -> None:
    configured(tmp_path, JSON_TO_FILE.format(path=tmp_path / "out"))
    with logcontext.bound(queue=HOSTILE, job=float("nan"), consumer=object()):
        log.info("%s", HOSTILE, extra={"more": {HOSTILE: [HOSTILE, 1.5]}})
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            log.exception("failed")
        log.info("wrong %d call", "number")
    raw = (tmp_path / "out").read_bytes()
    assert raw.count(b"\n") == 3
    assert all(byte == 10 or 32 <= byte < 127 for byte in raw)
    first, second, third = lines(tmp_path / "out")
    readable = HOSTILE.replace("\ud800", "\\ud800")
    assert first["message"] == first["queue"] == readable
    assert first["more"] == {readable: [readable, 1.5]}
    assert first["job"] == "nan"
    assert second["error"] == "ValueError"
    assert "Traceback" in second["exception"] and "\n" in second["exception"]
    assert third["message"].startswith("wrong %d call")


def test_a_text_without_end_is_cut(tmp_path: Path) -> None:
    configured(tmp_path, JSON_TO_FILE.format(path=tmp_path / "out"))
    log.info("x" * 1_000_000)
    (line,) = lines(tmp_path / "out")
    assert len(line["message"]) == 100_000
    assert line["cut"] is True


# -- handlers ------------------------------------------------------------------------------


def test_a_rotating_file_keeps_so_many_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    text = JSON_TO_FILE.format(path="~/%(job_name)s.log")
    configured(
        tmp_path, text.replace("formatter =", "maxBytes = 1000\nbackupCount = 2\nformatter =")
    )
    for number in range(30):
        log.info("message %d", number)
    files = sorted(path.name for path in tmp_path.glob("my_job.log*"))
    assert files == ["my_job.log", "my_job.log.1", "my_job.log.2"]
    assert all((tmp_path / name).stat().st_size <= 1000 for name in files)
    assert lines(tmp_path / "my_job.log")[-1]["message"] == "message 29"


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_a_full_disk_is_said_once_and_ends_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = JSON_TO_FILE.format(path="/dev/full")
    configured(tmp_path, text.replace("formatter =", "maxBytes = 0\nformatter ="))
    for number in range(3):
        log.info("message %d", number)
    assert capfd.readouterr().err == "logfile /dev/full: [Errno 28] No space left on device\n"


def test_a_rotating_file_that_somebody_moved_is_begun_anew(tmp_path: Path) -> None:
    configured(tmp_path, JSON_TO_FILE.format(path=tmp_path / "out"))
    log.info("before")
    (tmp_path / "out").rename(tmp_path / "moved")
    log.info("after")
    assert [line["message"] for line in lines(tmp_path / "out")] == ["after"]
    assert (tmp_path / "out").stat().st_mode & 0o027 == 0


SYSLOG = """
[formatters.line]
class = "londiste.daemon.logging.OneLine"
format = "%(levelname)s %(message)s"
[handlers.syslog]
class = "londiste.daemon.loghandlers.Syslog"
address = "{path}"
facility = "local3"
ident = "%(job_name)s"
formatter = "line"
[root]
handlers = ["syslog"]
"""


def _syslogd(path: Path) -> socket.socket:
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(str(path))
    receiver.settimeout(10)
    return receiver


def test_syslog_gets_one_line_with_ident_and_priority(tmp_path: Path) -> None:
    with _syslogd(tmp_path / "dev-log") as receiver:
        configured(tmp_path, SYSLOG.format(path=tmp_path / "dev-log"))
        with logcontext.bound(queue="q", batch=2):
            log.warning("two\nlines")
        said = receiver.recv(65536).decode().rstrip("\0")
    # local3 is 19, warning 4
    assert said.startswith("<156>my_job[")
    assert said.endswith("]: WARNING two\\x0alines [queue=q batch=2]")


def test_syslog_by_settings_needs_no_file(tmp_path: Path) -> None:
    with _syslogd(tmp_path / "dev-log") as receiver:
        address = str(tmp_path / "dev-log")
        setup(target=LogTarget(syslog=("pgqd", "daemon", address)), console=False)
        log.error("x")
        assert receiver.recv(65536).decode().startswith("<27>pgqd[")
    with pytest.raises(BadOption, match="no syslog facility nowhere"):
        setup(target=LogTarget(syslog=("pgqd", "nowhere", address)))


def test_a_syslog_that_does_not_read_blocks_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with _syslogd(tmp_path / "dev-log"):
        configured(tmp_path, SYSLOG.format(path=tmp_path / "dev-log"))
        for _ in range(2000):
            log.info("x" * 1000)
    assert capfd.readouterr().err.count("\n") == 1


UDP = """
[handlers.udp]
class = "londiste.daemon.loghandlers.Udp"
host = "127.0.0.1"
port = {port}
max_bytes = 1000
[root]
handlers = ["udp"]
"""


def test_udp_sends_one_bounded_json_object_per_record(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(10)
        configured(tmp_path, UDP.format(port=receiver.getsockname()[1]))
        with logcontext.bound(queue="q"):
            log.info("%s", HOSTILE)
            log.info("y" * 100_000)
        first, second = (receiver.recv(65536) for _ in range(2))
    assert json.loads(first)["message"].startswith("line\nbreak")
    assert len(second) <= 1000
    cut = json.loads(second)
    assert (cut["queue"], cut["cut"]) == ("q", True)
    assert set(cut["message"]) == {"y"}


def test_nobody_listening_to_udp_is_no_trouble(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
    configured(tmp_path, UDP.format(port=port))
    for number in range(10):
        log.info("%d", number)
    assert capfd.readouterr().err == ""


# -- the file ------------------------------------------------------------------------------


def test_json_and_ini_files_do_what_toml_does(tmp_path: Path) -> None:
    document = {
        "formatters": {"json": {"class": "londiste.daemon.logjson.Json"}},
        "handlers": {
            "file": {
                "class": "londiste.daemon.loghandlers.RotatingFile",
                "filename": str(tmp_path / "of-json"),
                "formatter": "json",
            }
        },
        "root": {"handlers": ["file"]},
    }
    configured(tmp_path, json.dumps(document), "log.json")
    log.info("x")
    configured(
        tmp_path,
        "[loggers]\nkeys=root\n[handlers]\nkeys=file\n[formatters]\nkeys=json\n"
        "[logger_root]\nlevel=INFO\nhandlers=file\n"
        "[handler_file]\nclass=skytools.skylog.EasyRotatingFileHandler\nformatter=json\n"
        f"args=('{tmp_path}/of-%(job_name)s', 'a', 100*1024, 3)\n"
        "[formatter_json]\nclass=londiste.daemon.logjson.Json\n",
        "log.ini",
    )
    log.info("y")
    assert [line["message"] for line in lines(tmp_path / "of-json")] == ["x"]
    assert [line["message"] for line in lines(tmp_path / "of-my_job")] == ["y"]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("", {}, {"info", "warning"}),
        ("", {"quiet": True}, {"warning"}),
        ("", {"verbose": 1}, {"debug", "info", "warning"}),
        ("[loggers.londiste]\nlevel='WARNING'", {}, {"warning"}),
        ("[loggers.londiste]\nlevel='WARNING'", {"verbose": 1}, {"debug", "info", "warning"}),
        ("[loggers.londiste]\nlevel='DEBUG'", {"quiet": True}, {"warning"}),
        ("[loggers.londiste]\nlevel='DEBUG'", {}, {"debug", "info", "warning"}),
        ("level='ERROR'", {}, set()),
    ],
)
def test_q_and_v_win_over_the_file_and_the_file_over_the_usual(
    tmp_path: Path, text: str, options: dict[str, Any], expected: set[str]
) -> None:
    # level= comes into [root], the last section
    head = JSON_TO_FILE.format(path=tmp_path / "out")
    configured(tmp_path, f"{head}{text}\n", **options)
    for level in ("debug", "info", "warning"):
        getattr(log, level)(level)
    assert {line["message"] for line in lines(tmp_path / "out")} == expected


WRONG = {
    "unparsable": ("[handlers", "not TOML"),
    "class": ("[handlers.x]\nclass='londiste.no.Such'\n[root]\nhandlers=['x']", "'x'"),
    "argument": (
        "[handlers.x]\nclass='londiste.daemon.loghandlers.Udp'\nhost='localhost'\nport=1\n"
        "nonsense=1\n[root]\nhandlers=['x']",
        "nonsense",
    ),
    "reference": ("[root]\nhandlers=['nobody']", "nobody"),
    "level": ("[root]\nlevel='LOUD'", "LOUD"),
    "directory": (JSON_TO_FILE.format(path="/no/such/directory/x"), "No such file or directory"),
    "function": (
        "[handlers.x]\nclass='londiste.daemon.logdatabase.Database'\ndsn='dbname=x'\n"
        "function='a.b.c'\n[root]\nhandlers=['x']",
        "a.b.c",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_one_line_with_a_hint_and_the_old_log_goes_on(
    tmp_path: Path, case: str
) -> None:
    configured(tmp_path, JSON_TO_FILE.format(path=tmp_path / "out"))
    text, part = WRONG[case]
    with pytest.raises(BadOption) as caught:
        configured(tmp_path, text, "wrong.toml")
    assert caught.value.exit_code == 2
    assert caught.value.message.startswith(f"log_config {tmp_path}/wrong.toml: ")
    assert part in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint
    log.info("still")
    assert [line["message"] for line in lines(tmp_path / "out")] == ["still"]


def test_a_password_in_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption) as caught:
        configured(tmp_path, "[handlers.x]\ndsn = 'dbname=x password=secret'")
    assert "secret" not in caught.value.message + caught.value.hint
    with contextlib.suppress(BadOption):
        (tmp_path / "log.toml").chmod(0o600)
        setup(target=LogTarget(config=tmp_path / "log.toml"))


def test_handlers_that_a_new_file_no_longer_names_are_gone(tmp_path: Path) -> None:
    extra = '[loggers."londiste.test"]\nhandlers = ["file"]\nlevel = "DEBUG"\n'
    configured(tmp_path, JSON_TO_FILE.format(path=tmp_path / "one") + extra)
    log.debug("twice")
    configured(tmp_path, JSON_TO_FILE.format(path=tmp_path / "two"))
    log.debug("not at all")
    log.info("once")
    assert [line["message"] for line in lines(tmp_path / "one")] == ["twice", "twice"]
    assert [line["message"] for line in lines(tmp_path / "two")] == ["once"]


def test_the_keys_of_pgqd_reach_syslog(tmp_path: Path) -> None:
    ini = tmp_path / "pgqd.ini"
    with _syslogd(tmp_path / "dev-log") as receiver:
        ini.write_text(
            "[pgqd]\ndatabases = dbname=x\nsyslog = 1\nsyslog_ident = my pgqd\n"
            f"syslog_facility = local0\nsyslog_address = {tmp_path}/dev-log\n"
        )
        setup(target=LogTarget.of(load(TickerSettings, ini)), console=False)
        log.error("x")
        assert receiver.recv(65536).decode().startswith("<131>my pgqd[")


def test_skylog_is_named_in_a_warning_with_what_to_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ini = tmp_path / "job.ini"
    ini.write_text("[londiste]\ndb = dbname=x\nqueue_name = q\nuse_skylog = 1\n")
    load(WorkerSettings, ini)
    assert "use_skylog has no effect in this version; use log_config" in caplog.text
