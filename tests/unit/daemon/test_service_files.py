"""Units, rules of logrotate, manual pages and completion: what the programs that read them say."""

from __future__ import annotations

import configparser
import logging
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from londiste.cli import COMMANDS, cli
from londiste.cli.errors import run
from londiste.cli.setup.config import FILES, file_text
from londiste.cli.setup.man import pages
from londiste.daemon.logging import setup
from londiste.daemon.supervisor import lines

UNITS = sorted(name for name in FILES.values() if name.endswith(".service"))


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_starts_a_command_that_exists_with_hardening(name: str) -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=True, comment_prefixes="#")
    unit.optionxform = str  # type: ignore[assignment]
    unit.read_string(file_text(name))
    service = unit["Service"]
    words = service["ExecStart"].split()
    assert words[0].startswith("/") and words[1] == "-c" and words[2].startswith("/etc/londiste/")
    # The console has a change of its own.
    assert words[3] in {*COMMANDS, "web"}
    assert service["Type"] == "notify" and service["NotifyAccess"] == "main"
    assert service["ProtectSystem"] == "strict" and service["NoNewPrivileges"] == "yes"
    assert service["CapabilityBoundingSet"] == "" and int(service["WatchdogSec"]) > 0
    # Java translates code at run time.
    assert "MemoryDenyWriteExecute" not in service


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    program = need("systemd-analyze")
    true = shutil.which("true") or "/bin/true"
    for name in UNITS:
        text = re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={true}", file_text(name))
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [program, "verify", "--man=no", *(tmp_path / name for name in UNITS)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "Failed to" in done.stderr and "manager" in done.stderr:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.strip()}")
    ours = [line for line in done.stderr.splitlines() if "londiste" in line]
    assert (done.returncode, ours) == (0, [])


@pytest.fixture
def log_of_a_process(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "log" / "worker.log"
    path.parent.mkdir()
    setup(logfile=path, console=False)
    yield path
    setup(console=False)


def test_a_rotated_log_is_opened_again(log_of_a_process: Path, tmp_path: Path) -> None:
    program = need("logrotate")
    log = logging.getLogger("londiste.test")
    log.info("before")
    children = log_of_a_process.with_name("run.log")
    (handler,) = lines(children, console=False)
    handler.handle(logging.makeLogRecord({"msg": "child before"}))
    rules = tmp_path / "rules"
    rules.write_text(
        file_text("londiste.logrotate").replace("/var/log/londiste", str(log_of_a_process.parent))
    )
    rules.chmod(0o644)
    subprocess.run(
        [program, "--force", "--state", tmp_path / "state", rules], timeout=30, check=True
    )
    log.info("after")
    handler.handle(logging.makeLogRecord({"msg": "child after"}))
    handler.close()
    for path, word in ((log_of_a_process, ""), (children, "child ")):
        assert path.read_text().rstrip().endswith(f"{word}after")
        assert Path(f"{path}.1").read_text().rstrip().endswith(f"{word}before")


PAGES = dict(pages(cli))


def test_there_is_a_page_for_every_command_that_is_shown() -> None:
    shown = {name for name, entry in COMMANDS.items() if not entry.hidden}
    assert {f"londiste-{name}" for name in shown} <= set(PAGES)
    assert "londiste-queue-dead-letters" in PAGES or "londiste-queue-status" in PAGES
    page = PAGES["londiste-worker"]
    command = cli.get_command(click.Context(cli), "worker")
    assert command is not None
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.opts[-1].replace("-", "\\-") in page, option


def test_the_formatter_of_manuals_accepts_every_page(tmp_path: Path) -> None:
    program = need("groff")
    files = []
    for name, text in PAGES.items():
        files.append(tmp_path / f"{name}.1")
        files[-1].write_text(text, encoding="utf-8")
    done = subprocess.run(
        [program, "-man", "-Tutf8", "-ww", "-z", *files],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_text_cannot_be_a_request_of_the_formatter() -> None:
    @click.command(help="First.\n\n.so /etc/passwd\n\n'br \\n(.x")
    @click.option("--x", help=".de evil")
    def hostile(x: str) -> None: ...

    hostile.name = "hostile"
    ((_, page),) = list(pages(hostile))
    assert not re.search(r"(?m)^[.'](so|de|br)", page)
    assert "\\en(.x" in page


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_where_the_shell_looks(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    assert run(cli, ["completion", shell, "--install"]) == 0
    (written,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert "_LONDISTE_COMPLETE" in written.read_text()
    assert str(written) in capsys.readouterr().err
    assert run(cli, ["completion", shell]) == 0
    assert capsys.readouterr().out.strip() == written.read_text().strip()
    if shell == "bash":
        checked = subprocess.run(["bash", "-n", written], check=False, timeout=30)
        assert checked.returncode == 0
    written.unlink()
    written.mkdir()
    assert run(cli, ["completion", shell, "--install"]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_make_man_writes_all_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cli, ["man", str(tmp_path / "man")]) == 0
    assert len(list((tmp_path / "man/man1").iterdir())) == len(PAGES)
    (tmp_path / "file").write_text("")
    assert run(cli, ["man", str(tmp_path / "file" / "x")]) == 2
    assert "hint:" in capsys.readouterr().err
