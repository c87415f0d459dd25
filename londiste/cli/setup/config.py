"""``londiste config``: prints an annotated settings file, or a file for systemd or logrotate."""

from __future__ import annotations

import shutil
import sys
from importlib import resources
from pathlib import Path

import click

from londiste import settings
from londiste.settings.cascade_keys import template

KINDS: dict[str, type[settings.Settings]] = {
    "worker": settings.WorkerSettings,
    "ticker": settings.TickerSettings,
    "consumer": settings.ConsumerSettings,
    "notify": settings.NotifySettings,
}

#: The one file of a whole cascade.
CASCADE = "cascade"

#: Files for service manager and log rotation, by the word that prints them.
FILES = {
    "systemd-run": "londiste.service",
    "systemd-worker": "londiste-worker@.service",
    "systemd-ticker": "londiste-ticker@.service",
    "systemd-notify": "londiste-notify@.service",
    "systemd-web": "londiste-web.service",
    "logrotate": "londiste.logrotate",
}


@click.command()
@click.argument("kind", type=click.Choice([*KINDS, CASCADE, *FILES]), default="worker")
def config(kind: str) -> None:
    """Print an annotated configuration file for a worker, a ticker, a consumer or a cascade.

    Also a unit for systemd, or rules for logrotate.

    \b
    londiste config systemd-run > /etc/systemd/system/londiste.service
    """
    if kind in FILES:
        click.echo(file_text(FILES[kind]), nl=False)
        return
    click.echo(template() if kind == CASCADE else settings.annotated(KINDS[kind]))


def file_text(name: str) -> str:
    """A file for service manager or log rotation, with the path of this program."""
    shipped = resources.files("londiste.cli.setup") / "share" / name
    return shipped.read_text(encoding="utf-8").replace("@LONDISTE@", _program())


def _program() -> str:
    """The absolute path of ``londiste``, beside the interpreter if it is not in PATH."""
    beside = Path(sys.executable).with_name("londiste")
    found = str(beside) if beside.exists() else shutil.which("londiste")
    return str(Path(found or "/usr/local/bin/londiste").absolute())
