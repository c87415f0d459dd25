"""``londiste run``: the daemons of a file, what a reload changes, and delays before restarts."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from londiste.cascadefile.daemons import daemons
from londiste.daemon.supervisor import Daemon, changes, delay
from londiste.errors import BadOption
from londiste.settings import WorkerSettings
from londiste.settings.cascade_file import CascadeFile, parse

TEXT = """
[nodes.a]
db = "dbname=a"
role = "root"
[nodes.b]
db = "dbname=b"
role = "branch"
provider = "a"
[nodes.c]
db = "dbname=c"
role = "leaf"
provider = "b"
[lakes.files]
node = "b"
[dispatchers.parts]
"""


def file_of(text: str = TEXT) -> CascadeFile:
    return parse(Path("q.toml"), text, tomllib.loads(text))


def of(file: CascadeFile, *chosen: str) -> list[Daemon]:
    def settings(node: str) -> WorkerSettings:
        return WorkerSettings(db=file.nodes[node].db, queue_name="q", job_name=f"q_{node}")

    return daemons(file, chosen, ("londiste",), settings)


def test_a_file_needs_a_ticker_workers_and_jobs() -> None:
    found = of(file_of())
    assert [(d.name, d.rank, d.argv[1:]) for d in found] == [
        ("ticker", 0, ("ticker",)),
        ("worker a", 1, ("--node", "a", "worker")),
        ("worker b", 1, ("--node", "b", "worker")),
        ("worker c", 1, ("--node", "c", "worker")),
        ("lake files", 2, ("--node", "files", "lake", "run")),
        ("dispatch parts", 2, ("--node", "parts", "dispatch")),
    ]


def test_chosen_nodes_have_tickers_of_their_own() -> None:
    assert [d.name for d in of(file_of(), "b", "c")] == [
        "ticker b", "worker b", "worker c", "lake files",
    ]  # fmt: skip
    with pytest.raises(BadOption, match="no node bb") as caught:
        of(file_of(), "bb")
    assert caught.value.hint == "did you mean b?"


def test_a_file_with_a_channel_has_a_notifier(monkeypatch: pytest.MonkeyPatch) -> None:
    def argv(section: str, *chosen: str) -> list[tuple[str, ...]]:
        return [d.argv for d in of(file_of(TEXT + section), *chosen) if d.name == "notify"]

    for key in ('webhook = "http://x"', 'command = ["x"]'):
        assert argv(f"[notify]\n{key}\n") == [("londiste", "notify")]
    assert argv('[notify]\nwebhook = "http://x"\n', "a", "b") == [
        ("londiste", "notify", "--node", "a", "--node", "b")
    ]
    assert argv("[notify]\nafter = 5\n") == []
    monkeypatch.setenv("LONDISTE_WEBHOOK", "http://secret")
    assert argv("[notify]\nafter = 5\n") == [("londiste", "notify")]
    assert argv("") == []


def test_nodes_with_a_share_of_time_have_an_audit() -> None:
    def of_share(**shares: float) -> list[Daemon]:
        def settings(node: str) -> WorkerSettings:
            share = shares.get(node, 0.0)
            return WorkerSettings(db="x", queue_name="q", job_name=node, audit_share=share)

        return daemons(file_of(), (), ("londiste",), settings)

    assert not [d for d in of_share() if d.name.startswith("audit")]
    # The root is what the others are compared with.
    found = of_share(a=0.1, b=0.1, c=0.2)
    assert [(d.rank, d.argv) for d in found if d.name.startswith("audit")] == [
        (2, ("londiste", "--node", node, "compare", "--continuous")) for node in "bc"
    ]
    changed = changes(found, of_share(b=0.1, c=0.3))
    assert [d.name for d in changed.stop] == [d.name for d in changed.start] == ["audit c"]


def test_a_reload_restarts_just_what_cannot_change() -> None:
    before = of(file_of())
    text = TEXT.replace('"dbname=c"', '"dbname=c2"').replace('node = "b"', 'node = "a"')
    text = text.replace("[dispatchers.parts]", "") + '[nodes.d]\ndb="x"\nrole="leaf"\nprovider="a"'
    found = changes(before, of(file_of(text)))
    assert [d.name for d in found.stop] == ["lake files", "dispatch parts", "worker c"]
    assert [d.name for d in found.start] == ["worker d", "worker c", "lake files"]
    assert [d.name for d in found.reload] == ["ticker", "worker a", "worker b"]


def test_a_daemon_that_fails_again_waits_longer() -> None:
    assert [delay(n, 20) for n in (1, 2, 3, 6, 7, 1000)] == [0.5, 1, 2, 16, 20, 20]
