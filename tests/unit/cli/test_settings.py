"""Settings: sources of a value, and errors for invalid values."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from londiste import settings
from londiste.cli import cli
from londiste.cli.errors import run
from londiste.errors import BadOption
from londiste.settings import DatabaseSettings, NodeSettings, TickerSettings, WorkerSettings, load
from londiste.settings.earlier import LONDISTE3_NAMES, OTHER_NAMES, RENAMED


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in (*OTHER_NAMES, *WorkerSettings.model_fields):
        monkeypatch.delenv(f"LONDISTE_{key.upper()}", raising=False)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def test_the_later_source_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "n.toml", '[londiste]\ndb="a"\nqueue_name="q"\nloop_delay=3\n')
    assert load(WorkerSettings, file).poll_interval == 3
    assert load(WorkerSettings, file).parallel_copies == 2
    monkeypatch.setenv("LONDISTE_POLL_INTERVAL", "4")
    assert load(WorkerSettings, file).poll_interval == 4
    assert load(WorkerSettings, file, {"poll_interval": "5"}).poll_interval == 5


@pytest.mark.parametrize("old", sorted(OTHER_NAMES))
def test_an_earlier_name_of_a_setting_is_read_wherever_it_is_given(
    old: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kind = next(
        k for k in (WorkerSettings, settings.ConsumerSettings) if OTHER_NAMES[old] in k.model_fields
    )
    value = "full" if old == "follow_create" else "7"
    section = kind.sections[0]
    required = {"db": "a", "queue_name": "q"}
    base = "".join(f'{key}="{text}"\n' for key, text in required.items() if key != OTHER_NAMES[old])
    plain = write(tmp_path / "plain.toml", f"[{section}]\n{base}")
    named = write(tmp_path / "named.toml", f'[{section}]\n{base}{old}="{value}"\n')
    given = load(kind, plain, {OTHER_NAMES[old]: value})
    caplog.clear()
    assert load(kind, named) == given.model_copy(update={"job_name": "named"})
    assert load(kind, plain, {old: value}) == given
    monkeypatch.setenv(f"LONDISTE_{old.upper()}", value)
    assert load(kind, plain) == given
    notices = [r.getMessage() for r in caplog.records if "is now called" in r.getMessage()]
    # Names of Londiste 3 stay as they are; those of Londiste 4 are told of, with their place.
    assert len(notices) == (3 if old in RENAMED else 0)
    assert (old in LONDISTE3_NAMES) != (old in RENAMED)
    assert all(f"setting {old} is now called {OTHER_NAMES[old]}" in notice for notice in notices)


def test_a_setting_without_effect_is_no_option(tmp_path: Path) -> None:
    file = write(tmp_path / "n.toml", '[londiste]\ndb="a"\nqueue_name="q"\n')
    with pytest.raises(BadOption, match="--set: unknown setting use_skylog"):
        load(WorkerSettings, file, {"use_skylog": "1"})


def test_the_job_is_named_after_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "leaf1.toml", '[londiste]\ndb="a"\nqueue_name="q"\n')
    assert load(NodeSettings, file).job_name == "leaf1"
    assert load(NodeSettings, file).consumer == "leaf1"
    assert load(NodeSettings, file, {"consumer_name": "other"}).consumer == "other"


def test_an_unknown_key_is_refused_with_file_and_line(tmp_path: Path) -> None:
    file = write(tmp_path / "n.toml", '[londiste]\ndb="a"\n\nqueue_nam="q"\n')
    with pytest.raises(BadOption) as caught:
        load(WorkerSettings, file)
    assert caught.value.message == f"{file}:4: unknown setting queue_nam"
    assert caught.value.hint == "did you mean queue_name?"


def test_an_unknown_key_of_an_ini_file_is_refused_with_its_line(tmp_path: Path) -> None:
    file = write(tmp_path / "n.ini", "[londiste]\ndb = a\nqueue_name = q\nfoo_bar = 1\n")
    with pytest.raises(BadOption, match=r"n\.ini:4: unknown setting foo_bar"):
        load(WorkerSettings, file)


def test_an_unknown_section_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "n.toml", '[londiste]\ndb="a"\n[lodniste]\nx=1\n')
    with pytest.raises(BadOption, match=r"n\.toml:3: unknown section \[lodniste\]"):
        load(WorkerSettings, file)


def test_daemons_of_a_migration_take_its_file(tmp_path: Path) -> None:
    file = write(tmp_path / "n.toml", '[londiste]\ndb="a"\n[migrate]\nfrom_db="b"\nto_db="c"\n')
    assert load(TickerSettings, file).db == "a"


@pytest.mark.parametrize("section", ["lake", "dispatch"])
def test_other_commands_take_the_database_of_a_job_from_its_file(
    section: str, tmp_path: Path
) -> None:
    file = write(tmp_path / "n.toml", f'[{section}]\ndb="a"\nqueue_name="q"\nother=1\n')
    assert load(DatabaseSettings, file).db == "a"


def test_the_database_of_another_section_is_taken_only_without_an_own_one(tmp_path: Path) -> None:
    job = '[lake]\ndb="b"\n'
    for text in ('[londiste]\ndb="a"\n' + job, job + '[londiste]\ndb="a"\n'):
        file = write(tmp_path / "n.toml", text)
        assert load(DatabaseSettings, file).db == "a"
        assert load(TickerSettings, file).db == "a"
    file = write(tmp_path / "n.toml", '[londiste]\ndb="a"\n[ticker]\ndb="c"\n' + job)
    assert (load(DatabaseSettings, file).db, load(TickerSettings, file).db) == ("a", "c")


def test_a_missing_required_key_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "n.toml", '[londiste]\ndb="a"\n')
    with pytest.raises(BadOption) as caught:
        load(WorkerSettings, file)
    assert "setting queue_name is missing" in caught.value.message
    assert "LONDISTE_QUEUE_NAME" in caught.value.hint


def test_a_value_that_does_not_fit_is_named_with_its_place(tmp_path: Path) -> None:
    file = write(tmp_path / "n.toml", '[londiste]\ndb="a"\nqueue_name="q"\nparallel_copies=0\n')
    with pytest.raises(BadOption, match=r"n\.toml:4: parallel_copies: .*greater"):
        load(WorkerSettings, file)


def test_a_queue_without_a_name_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "n.toml", '[londiste]\ndb="a"\nqueue_name=" "\n')
    with pytest.raises(BadOption) as caught:
        load(NodeSettings, file)
    assert f"{file}:3: queue_name: " in caught.value.message


def test_old_ini_files_are_read_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(
        tmp_path / "job.ini",
        "[londiste]\njob_name = myjob\ndb = dbname=%(job_name)s\npgq_queue_name = q\n"
        "pidfile = %(config_dir)s/%(job_name)s.pid\nuse_skylog = 1\nlogfile =\n",
    )
    with caplog.at_level(logging.WARNING):
        found = load(WorkerSettings, file)
    assert (found.db, found.queue_name) == ("dbname=myjob", "q")
    assert found.pidfile == tmp_path / "myjob.pid"
    assert found.logfile is None
    assert "use_skylog has no effect" in caplog.text


def test_the_new_interpolation_of_ini_files_is_understood(tmp_path: Path) -> None:
    file = write(
        tmp_path / "job.ini",
        "[londiste]\nconfig_format = 2\njob_name = j\ndb = dbname=${job_name}\nqueue_name = 50%\n",
    )
    assert load(WorkerSettings, file).db == "dbname=j"
    assert load(WorkerSettings, file).queue_name == "50%"


def test_a_percent_sign_that_means_nothing_is_found_with_its_line(tmp_path: Path) -> None:
    file = write(tmp_path / "n.ini", "[londiste]\ndb = a\nqueue_name = 50%\n")
    with pytest.raises(BadOption, match=r"n\.ini:3: queue_name: ") as caught:
        load(WorkerSettings, file)
    assert caught.value.hint == "write %% for a % that means itself"


def test_spark_settings_come_from_their_section_and_from_dotted_keys(tmp_path: Path) -> None:
    file = write(
        tmp_path / "n.toml",
        '[londiste]\ndb="a"\nqueue_name="q"\n"spark.driver.memory"="2g"\n'
        '[spark]\nmaster="local[2]"\nui.enabled=false\n[spark.sql.shuffle]\npartitions=4\n',
    )
    assert load(WorkerSettings, file, {"spark.master": "local[1]"}).spark == {
        "spark.driver.memory": "2g",
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }


def test_the_ticker_reads_its_section_and_the_database_of_the_node(tmp_path: Path) -> None:
    file = write(
        tmp_path / "n.toml",
        '[londiste]\ndb="a"\nqueue_name="q"\npidfile="/run/worker.pid"\n[ticker]\nticker_period=0.1\n',
    )
    found = load(TickerSettings, file)
    # Both may run, and -s of one must not stop the other.
    assert (found.db, found.ticker_period, found.pidfile) == (
        "a",
        0.1,
        Path("/run/worker.ticker.pid"),
    )


def test_what_a_program_has_in_its_own_section_counts_for_it(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(
        '[londiste]\ndb="a"\nqueue_name="q"\npidfile="/run/worker.pid"\nlogfile="/log/w"\n'
        '[ticker]\npidfile="/run/t.pid"\n'
    )
    found = load(TickerSettings, file)
    assert (found.pidfile, found.logfile) == (Path("/run/t.pid"), Path("/log/w"))
    worker = load(WorkerSettings, file)
    assert worker.pidfile == Path("/run/worker.pid")


def test_a_password_in_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "n.toml", '[londiste]\ndb="host=a password=s3cret"\nqueue_name="q"\n')
    assert "s3cret" in load(WorkerSettings, file).db
    file.chmod(0o644)
    with pytest.raises(BadOption) as caught:
        load(WorkerSettings, file)
    assert "s3cret" not in str(caught.value) + caught.value.detail + caught.value.hint
    assert "chmod 600" in caught.value.hint


def test_the_printed_file_is_read_back_as_the_defaults(tmp_path: Path) -> None:
    text = settings.annotated(WorkerSettings)
    text = text.replace('db = ""', 'db = "a"').replace('queue_name = ""', 'queue_name = "q"')
    uncommented = "\n".join(
        line[1:] if line.startswith("#") and not line.startswith("# ") else line
        for line in text.splitlines()
        if line not in {'#job_name = ""'} and '= ""' not in line.replace('queue_name = "q"', "")
    )
    found = load(WorkerSettings, write(tmp_path / "n.toml", uncommented))
    expected = WorkerSettings(db="a", queue_name="q", job_name="n")
    ignored = {"spark"}
    assert found.model_dump(exclude=ignored) == expected.model_dump(exclude=ignored)


def test_a_file_of_pgqd_means_all_databases_of_the_local_server(tmp_path: Path) -> None:
    from londiste.cli.daemons.ticker import places

    def of(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        file = tmp_path / "pgqd.ini"
        file.write_text(f"[pgqd]\nlogfile = ~/log/pgqd.log\npidfile = ~/pid/pgqd.pid\n{text}")
        return places(settings.load(settings.TickerSettings, file))

    assert of("") == ((), ("dbname=template1",))
    assert of("base_connstr =\n") == ((), ("dbname=template1",))
    assert of("base_connstr = host=h\ninitial_database = p\n") == ((), ("host=h dbname=p",))
    assert of("base_connstr = host=h\ndatabase_list = a, b c\n") == (
        ("host=h dbname=a", "host=h dbname=b", "host=h dbname=c"),
        (),
    )
    assert of("databases = dbname=x\n") == (("dbname=x",), ())
    with pytest.raises(BadOption, match="no database given for the ticker"):
        places(settings.load(settings.TickerSettings, None))


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_missing_file_of_a_cascade_is_named_with_its_template(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two words.toml"
    assert run(cli, ["-c", str(file), command]) == 2
    assert capsys.readouterr().err == (
        f"error: {file}: no such file\nhint: print a template: londiste config cascade > '{file}'\n"
    )


@pytest.mark.parametrize("extra", ["password=x", "no connection string"])
def test_a_wrong_remote_extra_connstr_is_refused_with_the_settings(extra: str) -> None:
    given = {"db": "dbname=x", "queue_name": "q", "remote_extra_connstr": extra}
    with pytest.raises(BadOption, match="remote_extra_connstr"):
        load(NodeSettings, None, given)
