"""The file of a whole cascade: settings of each node, its checks, and where it is found."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.cli.options import Context, DaemonCall
from londiste.consumer import Consumer
from londiste.errors import BadOption
from londiste.lake.settings import LakeSettings
from londiste.monitor.queues.model import Finding
from londiste.settings import (
    ConsumerSettings,
    DatabaseSettings,
    NodeSettings,
    Settings,
    TickerSettings,
    WorkerSettings,
    cascade_file,
    cascade_keys,
    load,
)
from londiste.tools.dispatch.settings import DispatchSettings

TEXT = """\
[queue]
name = "shop"
ticker_max_lag = "2 seconds"

[nodes.c]
db = "dbname=c"
role = "leaf"
provider = "b"
parallel_copies = 7

[nodes.a]
db = "dbname=a password=geheim"
role = "root"

[nodes.b]
db = "dbname=b"
role = "branch"
provider = "a"
worker = "old_name"
location = "host=b dbname=b"

[tables]
include = ["public.*"]

[tables."public.orders"]
where = "id > 3"

[worker]
parallel_copies = 3
poll_interval = 2

[spark]
master = "local[2]"

[lakes.files]
node = "b"
lake_path = "/tmp/lake"
lake_tables = ["public.orders"]

[dispatchers.parts]
target_path = "/tmp/parts"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(TEXT)
    path.chmod(0o600)
    return path


def test_a_node_has_the_settings_of_its_section_and_of_all_workers(file: Path) -> None:
    c = load(WorkerSettings, file, node="c")
    assert (c.db, c.queue_name, c.node_name, c.job_name) == ("dbname=c", "shop", "c", "shop_c")
    assert (c.parallel_copies, c.poll_interval) == (7, 2)
    assert c.initial_provider_location == "dbname=b"
    assert c.spark == {"spark.master": "local[2]"}
    b = load(NodeSettings, file, node="b")
    assert (b.consumer, b.public_node_location) == ("old_name", "host=b dbname=b")
    assert load(WorkerSettings, file, node="b").parallel_copies == 3


def test_a_password_is_no_part_of_the_location(file: Path) -> None:
    assert load(NodeSettings, file, node="a").public_node_location == "dbname=a"


def test_the_ticker_serves_all_nodes_with_a_queue(file: Path) -> None:
    found = load(TickerSettings, file)
    assert found.databases == ("dbname=a password=geheim", "dbname=b")


def test_a_lake_has_the_database_of_its_node(file: Path) -> None:
    found = load(LakeSettings, file)
    assert (found.db, found.queue_name, found.job_name) == ("dbname=b", "shop", "files")


def test_a_dispatcher_has_the_database_of_the_root(file: Path) -> None:
    found = load(DispatchSettings, file, node="parts")
    assert (found.db, found.job_name) == ("dbname=a password=geheim", "parts")
    assert str(found.target_path) == "/tmp/parts"
    text = file.read_text().replace("target_path", "target_pat")
    file.write_text(text)
    with pytest.raises(BadOption, match=r"shop.toml:41: unknown setting target_pat"):
        load(DispatchSettings, file, node="parts")


def test_the_environment_changes_no_database(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONDISTE_DB", "dbname=other")
    monkeypatch.setenv("LONDISTE_POLL_INTERVAL", "9")
    found = load(WorkerSettings, file, node="c")
    assert (found.db, found.poll_interval) == ("dbname=c", 9)
    assert load(WorkerSettings, file, {"db": "dbname=x"}, node="c").db == "dbname=x"


Here = Callable[..., Context]


@pytest.fixture
def here(file: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    """``here("dbname=x", node="c")`` -> the call beside ./londiste.toml with that LONDISTE_DB."""
    monkeypatch.chdir(file.parent)
    monkeypatch.delenv("LONDISTE_CONFIG", raising=False)
    file.rename("londiste.toml")

    def call(dsn: str, config: str | None = None, **given: Any) -> Context:
        monkeypatch.setenv("LONDISTE_DB", dsn)
        return Context.make(config, quiet=False, verbose=0, overrides=(), **given)

    return call


class Signups(Consumer):
    queue = "signups"
    name = "welcome"


def test_a_file_in_the_directory_hides_no_database_that_the_environment_names(here: Here) -> None:
    call = here("dbname=q")
    assert call.settings(DatabaseSettings).db == "dbname=q"
    assert call.settings(DatabaseSettings, db="dbname=x").db == "dbname=x"
    found = call.settings(TickerSettings)
    assert (found.db, found.databases) == ("dbname=q", ())
    assert call.settings(TickerSettings, databases=("dbname=x",)).databases == ("dbname=x",)
    # Not of the queue of the cascade, which is elsewhere.
    read = load(
        ConsumerSettings, call.config, defaults=Signups.defaults(), variable=call.variable(None)
    )
    assert (read.db, read.queue_name, read.consumer) == ("dbname=q", "signups", "welcome")
    # The database of a node: the later one of file and environment, and the queue of the file.
    call = here("host='' dbname=b user=me")
    assert call.settings(DatabaseSettings).db == "host='' dbname=b user=me"
    read = load(ConsumerSettings, call.config, {}, variable=call.variable(None))
    assert read.queue_name == "shop"
    assert here("").settings(DatabaseSettings).db == "dbname=a password=geheim"


@pytest.mark.parametrize(
    ("kind", "dsn", "given", "message", "hint"),
    [
        (NodeSettings, "dbname=q", {"node": "c"}, "node c of londiste.toml has", "$UNSET"),
        (NodeSettings, "dbname=b", {"node": "c"}, "node c of londiste.toml has", "$UNSET"),
        (NodeSettings, "dbname=q", {}, "londiste.toml has", "$UNSET"),
        (NodeSettings, "dbname=b", {}, "londiste.toml has", "give its node: --node b; or $UNSET"),
        (LakeSettings, "dbname=q", {}, "londiste.toml has", "$UNSET"),
        (DatabaseSettings, "dbname=q", {"node": "c"}, "node c of londiste.toml has",
         "$UNSET; or, for its database: --db \"$LONDISTE_DB\""),
        (TickerSettings, "dbname=q", {"config": "londiste.toml"}, "londiste.toml has",
         "$UNSET; or, for its database: --db \"$LONDISTE_DB\""),
    ],
)  # fmt: skip
def test_another_database_than_that_of_the_node_is_refused(
    kind: type[Settings], dsn: str, given: dict[str, str], message: str, hint: str, here: Here,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    call = here(dsn, **given)
    monkeypatch.setattr("londiste.cli.options.starts_anywhere", lambda: True)
    with pytest.raises(BadOption) as caught:
        call.settings(kind)
    assert str(caught.value) == f"LONDISTE_DB names one database, and {message} another"
    assert caught.value.hint == hint.replace("$UNSET", "unset LONDISTE_DB")


def test_another_queue_than_that_of_the_file_is_refused(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = here("dbname=b", node="b")
    monkeypatch.setenv("LONDISTE_QUEUE_NAME", "shop")
    assert call.settings(NodeSettings).queue_name == "shop"
    monkeypatch.setenv("LONDISTE_QUEUE_NAME", "other")
    with pytest.raises(BadOption) as caught:
        call.settings(NodeSettings)
    assert str(caught.value) == (
        "LONDISTE_QUEUE_NAME names one queue, and londiste.toml has queue shop"
    )
    assert caught.value.hint.startswith("unset LONDISTE_QUEUE_NAME; or ")
    assert call.settings(NodeSettings, queue_name="other").queue_name == "other"
    # A program that needs no queue does not ask.
    assert call.settings(TickerSettings).databases


def test_commands_about_the_whole_file_refuse_a_database_without_node(here: Here) -> None:
    assert here("dbname=b").cascade_file().queue == "shop"
    assert here("dbname=c", node="c").settings(NodeSettings).db == "dbname=c"
    with pytest.raises(BadOption, match=r"LONDISTE_DB names one database, and londiste\.toml has"):
        here("dbname=q").cascade_file()


def test_a_command_about_one_node_needs_its_name(file: Path) -> None:
    with pytest.raises(BadOption) as caught:
        load(NodeSettings, file, anywhere=False)
    assert caught.value.hint == "give one of a, b, c: --node a"
    assert load(DatabaseSettings, file, anywhere=False).db.startswith("dbname=a")
    assert load(NodeSettings, file).node_name == "a"
    with pytest.raises(BadOption, match="no node bb") as caught:
        load(NodeSettings, file, node="bb")
    assert caught.value.hint == "did you mean --node b?"


def test_nodes_come_after_their_providers(file: Path) -> None:
    found = cascade_file.read(file)
    assert found is not None and list(found.nodes) == ["a", "b", "c"]
    assert found.parameters == {"ticker_max_lag": "2 seconds"}
    assert found.tables is not None and found.tables.rules == {"public.orders": {"where": "id > 3"}}


@pytest.mark.parametrize(
    ("before", "after", "message", "hint"),
    [
        ("[worker]", "[wroker]", ":28: unknown section [wroker]", "did you mean worker?"),
        ("provider = \"b\"\n", "provder = \"b\"\n", ":8: unknown setting provder in [nodes.c]",
         "did you mean provider?"),
        ("poll_interval", "pol_interval", ":30: unknown setting pol_interval in [worker]",
         "did you mean poll_interval?"),
        ('include =', 'keyless = "no"\ninclude =', ":23: keyless = 'no': unknown",
         "use one of insert_only, whole_row"),
        ("where", "wher", ':26: unknown setting wher in [tables."public.orders"]',
         "did you mean where?"),
        ("include", "inclde", ":23: unknown setting inclde in [tables]", "did you mean include?"),
        ('provider = "b"', 'provider = "bb"', ":8: unknown provider bb", "did you mean b?"),
        ('role = "leaf"', 'role = "lead"', ":7: node c: unknown role 'lead'",
         "use one of root, branch, leaf"),
        ('role = "root"', 'role = "branch"\nprovider = "b"', ":5: 0 roots",
         'give one node, and no other, role = "root"'),
        ('provider = "a"', 'provider = "c"', ":18: provider c is a leaf",
         'give c role = "branch"'),
        ('provider = "a"', 'provider = "b"', ":8: node c: its providers do not lead to the root",
         "correct provider"),
        ('provider = "a"\n', "", ":15: node b: a branch has a provider", 'write provider = "NODE"'),
        ('provider = "b"', 'provider = ["b"]', ":8: node c: provider is of another type",
         'write provider = "…"'),
        ('worker = "old_name"', "worker = 7", ":19: node b: worker is of another type",
         'write worker = "…"'),
        ('provider = "b"', "tables = 7", ":8: node c: tables is of another type",
         "write [nodes.c.tables]"),
        ('node = "b"', 'node = ["b"]', ":36: unknown node ['b']", "use one of c, a, b"),
        ('node = "b"', 'node = "d"', ":36: unknown node d", "use one of c, a, b"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_with_its_line(
    before: str, after: str, message: str, hint: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.toml"
    assert before in TEXT
    file.write_text(TEXT.replace(before, after, 1))
    with pytest.raises(BadOption) as caught:
        cascade_file.read(file)
    assert caught.value.message == f"{file}{message}"
    assert caught.value.hint == hint


def test_a_readable_password_is_reported_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            load(NodeSettings, file, node="a")
    assert [r.getMessage() for r in caplog.records] == [
        f"{file} contains passwords and other users can read it: chmod 600 {file}"
    ]
    assert "geheim" not in caplog.text


def test_the_template_is_a_file_of_a_cascade(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text(cascade_keys.template().replace("\n#", "\n"))
    found = cascade_file.read(file)
    assert found is not None and list(found.nodes) == ["main", "standby", "reports"]


def context(**given: Any) -> Context:
    return Context.make(None, quiet=False, verbose=0, overrides=(), **given)


def test_the_file_is_found_without_an_option(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LONDISTE_CONFIG", raising=False)
    assert context().config is None
    (tmp_path / "londiste.toml").write_text(TEXT)
    assert context().config == Path("londiste.toml")
    monkeypatch.setenv("LONDISTE_CONFIG", str(file))
    assert context().config == file
    assert context(node="c").settings(NodeSettings).db == "dbname=c"
    monkeypatch.setenv("LONDISTE_CONFIG", "")
    assert context().config is None
    with pytest.raises(BadOption, match="--node c: no cascade file"):
        context(node="c").settings(NodeSettings)


def test_files_of_a_daemon_are_named_after_file_node_and_program(file: Path) -> None:
    of = Context.make(str(file), quiet=False, verbose=0, overrides=(), node="c")
    worker = of.settings(WorkerSettings)
    assert of.in_background(worker, DaemonCall(False, False, False, False)).pidfile is None
    found = of.in_background(worker, DaemonCall(True, False, False, False))
    assert (found.pidfile, found.logfile) == (
        file.with_name("shop.c.pid"),
        file.with_name("shop.c.log"),
    )
    ticker = of.in_background(of.settings(TickerSettings), DaemonCall(True, False, False, False))
    assert ticker.pidfile == file.with_name("shop.ticker.pid")
    plain = file.with_name("leaf.toml")
    plain.write_text('[londiste]\ndb = "x"\nqueue_name = "q"\nlogfile = "/var/log/l"\n')
    of = Context.make(str(plain), quiet=False, verbose=0, overrides=())
    found = of.in_background(of.settings(WorkerSettings), DaemonCall(True, False, False, False))
    assert found.pidfile == file.with_name("leaf.pid")
    assert str(found.logfile) == "/var/log/l"


def test_doctor_of_two_databases_has_the_settings_of_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cascade.toml"
    path.write_text(
        '[queue]\nname = "q"\n[nodes.a]\nrole = "root"\nengine = "spark"\ndb = "host=h dbname=a"\n'
        '[nodes.b]\nrole = "leaf"\nprovider = "a"\nengine = "local"\ndb = "host=h dbname=b"\n'
    )
    engines = []

    def examined(*_: object, engine: str, **more: object) -> list[Finding]:
        engines.append(engine)
        return []

    monkeypatch.setattr("londiste.cli.setup.doctor.examine", examined)
    source, target = "postgresql://h/a", "postgresql://u@h:5432/b"
    for call in (
        ["doctor", source, target],
        ["doctor", target, source],
        ["--node", "a", "doctor", source, target],
        ["doctor", source, target, "--engine", "spark"],
    ):
        assert run(cli, ["-c", str(path), *call]) == 0
    assert engines == ["local", "spark", "spark", "spark"]
