"""Observers of a cascade: what each means of monitoring says, and after how many seconds."""

from __future__ import annotations

import json
import re
import shutil
import socket
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from londiste.metrics import collect
from londiste.metrics.cache import Cache
from londiste.metrics.endpoint import Endpoint
from londiste.metrics.pages import of_cascade
from londiste.monitor.place import Place
from tests.fixtures.line import QUEUE
from tests.scenarios.monitor.conftest import Watched
from tests.scenarios.monitor.outages import Outage
from tests.support.http.receiver import Receiver
from tests.support.scenarios.processes import Process
from tests.unit.metrics.test_samples import SHARE

#: Who observes, in the order of the table's columns.
SOURCES = ("status", "status --check", "metrics", "alert", "webhook", "console")
#: Seconds for which each may take; a stopped daemon is noticed after thirty.
PATIENCE = 90.0


@dataclass
class Observers:
    """The cascade's commands, notifier, console and Prometheus; all have started before."""

    watched: Watched
    hook: Receiver
    home: Path
    file: Path = field(init=False)
    console: str = ""
    prometheus: str = ""
    metrics: str = ""

    def start(self) -> None:
        """Starts them."""
        self.file = self.home / "londiste.toml"
        nodes = "".join(
            f"[nodes.{node.name}]\ndb = {json.dumps(node.database.dsn)}\n{role}\n"
            for node, role in (
                (self.watched.root, 'role = "root"'),
                (self.watched.leaf, 'role = "leaf"\nprovider = "root"'),
            )
        )
        self.file.write_text(
            f'[queue]\nname = "{QUEUE}"\n{nodes}[notify]\nwebhook = "{self.hook.url}"\n'
            "after = 1\ncheck_period = 1\n[web]\nlisten = '127.0.0.1:0'\nrefresh = 1\n"
        )
        self.file.chmod(0o600)
        self.start_notifier()
        web = self._start("web")
        pattern = r"console: (http://\S+)"
        self.console = self.watched.line.wait(lambda: re.search(pattern, web.said()), "console")[1]
        self._prometheus(self._endpoint())
        self.watched.line.wait(self.healthy, "that all say ok", 60)
        self.watched.healthy = self.settled

    def start_notifier(self) -> None:
        self.watched.notifier = self._start("notify")

    def _start(self, *words: str) -> Process:
        argv = [sys.executable, "-m", "londiste", "-c", str(self.file), *words]
        return self.watched.line.processes.start(words[0], argv)

    def _endpoint(self) -> str:
        """The pages of ``londiste run``, beside daemons that it has not started."""
        places = [
            Place(node.database.dsn, QUEUE, "") for node in (self.watched.root, self.watched.leaf)
        ]
        cache = Cache(collect.counting(lambda: collect.cascade(places)), fresh=0.5)
        endpoint = Endpoint("127.0.0.1:0")
        endpoint.serve(of_cascade(cache, lambda: iter(()), lambda: 60.0))
        self.metrics = endpoint.url
        return endpoint.url.removeprefix("http://")

    def _prometheus(self, target: str) -> None:
        program = shutil.which("prometheus")
        if program is None:
            pytest.skip("no prometheus here: apt-get install prometheus")
        (self.home / "rules.yml").write_text((SHARE / "rules.yml").read_text(encoding="utf-8"))
        (self.home / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
            "rule_files: [rules.yml]\nscrape_configs:\n  - job_name: londiste\n"
            "    scrape_interval: 2s\n    scrape_timeout: 2s\n"
            f"    static_configs: [{{targets: ['{target}']}}]\n"
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.prometheus = f"http://127.0.0.1:{port}"
        self.watched.line.processes.start(
            "prometheus",
            [
                program,
                f"--config.file={self.home / 'prometheus.yml'}",
                f"--storage.tsdb.path={self.home / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
        )

    # -- what they say ---------------------------------------------------------------------

    def command(self, at: str, *words: str) -> tuple[int, str]:
        """Exit code and output of a command with the settings of a node."""
        argv = [sys.executable, "-m", "londiste", "-c", str(self.file), "--node", at, *words]
        done = self.watched.line.processes.run(argv)
        return done.code, done.out + done.err

    def status(self, outage: Outage) -> str:
        _, text = self.command(outage.at, "status")
        plain = " ".join(text.split())
        words = outage.shown or outage.words
        return words if words in plain else ""

    def check(self, outage: Outage) -> str:
        code, text = self.command(outage.at, "status", "--check")
        seen = code == outage.code and outage.words in text
        return text.partition(" - ")[0].removeprefix("LONDISTE ").lower() if seen else ""

    def series(self, outage: Outage) -> str:
        text = read(f"{self.metrics}/metrics") or ""
        found = re.search(rf'londiste_findings\{{[^}}]*kind="{outage.kind}"', text)
        worst = re.search(r"(?m)^londiste_status\{[^}]*\} ([12])", text)
        return f"findings, kind {outage.kind}" if found and worst else ""

    def alert(self, outage: Outage) -> str:
        text = read(f"{self.prometheus}/api/v1/alerts")
        found = json.loads(text)["data"]["alerts"] if text else []
        states = {one["labels"]["alertname"]: one["state"] for one in found}
        return f"{outage.rule} {states[outage.rule]}" if outage.rule in states else ""

    def webhook(self, outage: Outage, since: float) -> str:
        begun: dict[str, float] = {}
        for one in list(self.hook.got):
            message = one.message
            key = message["finding"]["key"]
            if message["event"] == "ends":
                begun.pop(key, None)
            elif message["event"] == "begins" and message["finding"]["kind"] == outage.kind:
                begun[key] = epoch(message["since"])
        return "begins" if any(at >= since - 2 for at in begun.values()) else ""

    def settled(self) -> bool:
        """Whether all say ok, and people were told that all findings have ended."""
        open_now: set[str] = set()
        for one in list(self.hook.got):
            key, event = one.message["finding"]["key"], one.message["event"]
            open_now.discard(key) if event == "ends" else open_now.add(key)
        return not open_now and self.healthy()

    def page(self, outage: Outage) -> str:
        text = read(f"{self.console}/api/v1/cascade")
        if text is None:
            return ""
        found = json.loads(text)
        seen = any((outage.paged or outage.words) in one["what"] for one in found["findings"])
        return str(found["state"]) if seen and found["state"] != "ok" else ""

    def healthy(self) -> bool:
        """Whether all say ok."""
        text = read(f"{self.console}/api/v1/cascade")
        return (
            self.command("root", "status", "--check")[0] == 0
            and text is not None
            and json.loads(text)["state"] == "ok"
            and "londiste_findings{" not in (read(f"{self.metrics}/metrics") or "")
            and '"alerts":[]' in (read(f"{self.prometheus}/api/v1/alerts") or "")
        )

    def observe(self, outage: Outage) -> dict[str, tuple[float, str]]:
        """Seconds until each says it, and its words; in the with block of the outage."""
        began, wall = time.monotonic(), time.time()
        found: dict[str, tuple[float, str]] = {}
        by_http: dict[str, Callable[[], str]] = {
            "metrics": lambda: self.series(outage),
            "alert": lambda: self.alert(outage),
            "webhook": lambda: self.webhook(outage, wall),
            "console": lambda: self.page(outage),
        }
        by_command: dict[str, Callable[[], str]] = {
            "status": lambda: self.status(outage),
            "status --check": lambda: self.check(outage),
        }

        def ask(sources: dict[str, Callable[[], str]]) -> None:
            left = {name: one for name, one in sources.items() if name not in outage.silent}
            while left and time.monotonic() - began < PATIENCE:
                for name, one in list(left.items()):
                    if text := one():
                        found[name] = (time.monotonic() - began, text)
                        del left[name]
                pause.wait(0.2)

        pause = threading.Event()
        other = threading.Thread(target=ask, args=(by_http,))
        other.start()
        ask(by_command)
        other.join()
        missing = [one for one in SOURCES if one not in found and one not in outage.silent]
        assert not missing, f"{outage.name}: {missing} said nothing; {found}; {self.now(outage)}"
        return found

    def now(self, outage: Outage) -> str:
        """What is said now, for an error."""
        return "\n".join(
            (
                self.command(outage.at, "status")[1],
                self.command(outage.at, "status", "--check")[1],
                read(f"{self.console}/api/v1/cascade") or "no console",
                str([one.message["finding"] for one in self.hook.got[-3:]]),
            )
        )


def read(url: str) -> str | None:
    """The text of a page; None if there is none."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


def epoch(text: str) -> float:
    """A time of a message as seconds."""
    return datetime.fromisoformat(text).timestamp()
