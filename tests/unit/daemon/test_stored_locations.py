"""Which parameters of a node's stored location are used, and where secrets of settings go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg import conninfo

from londiste.cascade import copied_database
from londiste.cascade.commands.endpoint import endpoint, worker_settings
from londiste.cascade.commands.location_check import check_location, of_database
from londiste.db.connstr.locations import Refused, completed, reach, used
from londiste.dsn import describe_dsn
from londiste.errors import AccessDenied, BadOption, NodeUnreachable, StateError
from londiste.monitor.nodes import own_location
from londiste.settings import WorkerSettings

PLACE = "host=db7 dbname=x user=u"
PROVIDER = "host=db7 port=5433 dbname=x user=u password=geheim sslmode=require options='-c role=r'"


def parts(dsn: str) -> dict[str, str]:
    return {key: str(value) for key, value in conninfo.conninfo_to_dict(dsn).items()}


def refused(location: str, extra: str = "", **environment: str) -> str | None:
    """The parameter for which a location is refused."""
    found = used(parts(location), parts(extra), environment)
    return found.parameter if isinstance(found, Refused) else None


@pytest.mark.parametrize(
    "parameter",
    (
        "options='-c session_replication_role=replica'",
        "options='-c londiste.run_as_owner=off -c role=r'",
        "passfile=/etc/passwd",
        "sslkey=engine:x",
        "sslcert=/k",
        "sslcrl=/k",
        "requirepeer=x",
        "krbsrvname=x",
    ),
)
def test_a_location_names_no_file_and_no_option_of_the_session(parameter: str) -> None:
    name = parameter.partition("=")[0]
    assert refused(f"{PLACE} {parameter}") == name
    with pytest.raises(StateError, match=f"node n .*db7.*{name}") as caught:
        reach(f"{PLACE} {parameter}", "", node="n")
    assert "londiste move-node n" in caught.value.hint
    assert f"{name}=" in caught.value.hint
    with pytest.raises(BadOption, match=name):
        check_location(f"{PLACE} {parameter}")
    # What the settings of the program say has precedence.
    assert refused(f"{PLACE} {parameter}", parameter) is None
    assert reach(f"{PLACE} {parameter}", parameter).count(name) == 1


@pytest.mark.parametrize(
    ("location", "extra", "environment", "parameter"),
    [
        ("sslmode=disable", "", {}, None),
        ("sslmode=disable", "", {"PGSSLROOTCERT": "/r"}, "sslmode"),
        ("sslmode=require", "", {"PGSSLROOTCERT": "/r"}, "sslmode"),
        ("sslmode=verify-full", "", {"PGSSLROOTCERT": "/r"}, None),
        ("sslmode=prefer", "", {"PGSSLMODE": "require"}, "sslmode"),
        ("sslmode=verify-ca", "", {"PGSSLMODE": "require"}, None),
        ("sslmode=require", "sslrootcert=/r", {}, "sslmode"),
        ("sslmode=disable", "sslmode=verify-full", {}, None),
        ("sslrootcert=/s", "", {}, None),
        ("sslrootcert=/s", "", {"PGSSLROOTCERT": "/r"}, "sslrootcert"),
        ("sslrootcert=system", "sslrootcert=/r", {}, None),
        ("hostaddr=10.6.6.6", "", {}, "hostaddr"),
        ("hostaddr=10.6.6.6 sslmode=verify-full", "", {}, None),
        ("hostaddr=10.6.6.6", "", {"PGSSLROOTCERT": "/r"}, None),
        ("channel_binding=disable", "", {}, "channel_binding"),
        ("gssencmode=disable", "", {"PGGSSENCMODE": "require"}, "gssencmode"),
        ("gssencmode=disable", "", {}, None),
        # The file of a service may say verify-full.
        ("sslmode=disable", "", {"PGSERVICE": "s"}, "sslmode"),
        ("sslmode=verify-full", "", {"PGSERVICE": "s"}, None),
    ],
)
def test_a_location_asks_for_no_less_proof(
    location: str, extra: str, environment: dict[str, str], parameter: str | None
) -> None:
    assert refused(f"{PLACE} {location}", extra, **environment) == parameter


@pytest.mark.parametrize(
    "location",
    [
        "host=evil,evil hostaddr=,",
        "host=/tmp,127.0.0.1 hostaddr=,",
        "host=@name,evil hostaddr=,",
        "postgresql://%2Ftmp,evil/x?hostaddr=,",
        "postgresql://%2Ftmp%2Cevil/x?hostaddr=%2C",
    ],
)
def test_libpq_connects_to_a_host_whose_address_is_empty(location: str) -> None:
    place = parts(location) | {"port": "5433", "dbname": "x"}
    for mode in ({}, {"sslmode": "disable"}, {"sslmode": "verify-full"}):
        for environment in ({}, {"PGSSLROOTCERT": "/r"}):
            found = used(place | mode, {}, environment)
            assert isinstance(found, Refused)
            assert found.parameter in ("hostaddr", "sslmode")


def test_an_empty_parameter_does_not_replace_that_of_the_environment() -> None:
    for empty in ("require_auth=''", "sslrootcert=''", "sslmode=''", "hostaddr=''", "options=''"):
        assert parts(reach(f"{PLACE} {empty}", "")) == parts(PLACE)


def test_the_root_certificate_of_the_account_counts(tmp_path: Path) -> None:
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "root.crt").touch()
    assert refused(f"{PLACE} sslmode=disable", HOME=str(tmp_path)) == "sslmode"
    assert refused("host=/tmp dbname=x sslmode=disable", HOME=str(tmp_path)) is None


def test_a_service_gets_no_other_server() -> None:
    assert refused("service=s dbname=x user=u connect_timeout=3") is None
    assert refused("service=s host=evil") == "host"
    assert refused("service=s hostaddr=10.6.6.6") == "hostaddr"
    assert refused("host=evil", "service=s") == "host"
    assert refused("service=s sslmode=disable") == "sslmode"


def test_an_address_of_the_location_does_not_replace_the_host_of_the_settings() -> None:
    found = used(parts("host=a hostaddr=10.6.6.6 dbname=x"), {"host": "tunnel"}, {})
    assert found == {"host": "tunnel", "dbname": "x"}


@pytest.mark.parametrize("seconds", ["0", "-1", "61", "2147483647"])
def test_a_location_makes_no_program_wait_for_long(seconds: str) -> None:
    location = f"{PLACE} connect_timeout={seconds}"
    assert parts(reach(location, ""))["connect_timeout"] == "60"
    assert parts(reach(location, "connect_timeout=0"))["connect_timeout"] == "0"


def test_what_earlier_versions_stored_is_used() -> None:
    location = f"{PLACE} password=old options='-c londiste.run_as_owner=off'"
    assert parts(reach(location, "")) == parts(f"{PLACE} password=old")
    plain = f"{PLACE} target_session_attrs=read-write connect_timeout=2 keepalives_idle=3"
    assert reach(plain, "") == plain
    assert parts(reach(plain, "user=me")) == parts(plain) | {"user": "me"}


def test_the_string_of_one_node_is_used_for_no_other() -> None:
    assert reach("host=db7 port=5433 dbname=x", PROVIDER) == PROVIDER
    assert reach("host=db7 port=5433 dbname=x sslmode=disable", PROVIDER) == PROVIDER
    for other in (
        "host=evil port=5433 dbname=x",
        "host=db7 hostaddr=10.6.6.6 port=5433 dbname=x sslmode=verify-full",
        "host=db7 port=1 dbname=x",
        "host=db7 port=5433 dbname=y",
    ):
        assert reach(other, PROVIDER) == other
        assert completed(other, PROVIDER) == other
    assert completed("host=db7 port=5433 dbname=x", PROVIDER) == PROVIDER
    # Without a database it is for all nodes.
    assert parts(completed("host=a options=x", "user=u")) == parts("host=a options=x user=u")
    assert parts(reach("host=evil dbname=x", "password=geheim host=db7"))["host"] == "db7"


@pytest.mark.parametrize("use", [reach, completed])
def test_a_password_for_whatever_server_a_location_names_is_refused(
    use: Callable[[str, str], str],
) -> None:
    with pytest.raises(BadOption, match="has a password and names no server") as refused:
        use(PLACE, "user=u password=geheim")
    assert "~/.pgpass" in refused.value.hint
    assert "geheim" not in f"{refused.value} {refused.value.detail} {refused.value.hint}"


def test_a_worker_that_a_command_starts_has_the_secrets_of_its_provider_for_it_alone() -> None:
    provider = endpoint("root", PROVIDER, "w")
    assert parts(provider.location).keys() == {"host", "port", "dbname", "user", "sslmode"}
    leaf = endpoint("leaf", "host=b dbname=y", "w2")
    shared = WorkerSettings(db="dbname=y", queue_name="q", job_name="j")
    extra = worker_settings(shared, "q", leaf, provider).remote_extra_connstr
    assert parts(reach(provider.location, extra)) == parts(PROVIDER)
    assert "geheim" not in reach("host=evil port=5433 dbname=x", extra)
    # The database is found out where the string names none.
    bare = endpoint("root", "host=db7 user=u password=geheim", "w", dbname="x")
    extra = worker_settings(shared, "q", leaf, bare).remote_extra_connstr
    assert parts(reach(bare.location, extra))["password"] == "geheim"
    assert "geheim" not in reach("host=evil dbname=x", extra)


def test_a_location_that_comes_from_the_settings_is_one() -> None:
    own = f"{PLACE} options='-c londiste.run_as_owner=off' sslkey=/k"
    assert parts(check_location(of_database(own))) == parts(PLACE)
    with pytest.raises(BadOption, match="password"):
        check_location(of_database(f"{own} password=x"))


def test_a_message_names_the_address_that_is_connected() -> None:
    assert describe_dsn("host=db7 hostaddr=10.6.6.6 dbname=x") == "x@db7=10.6.6.6:5432"
    assert describe_dsn("hostaddr=10.6.6.6 dbname=x") == "x@10.6.6.6:5432"
    # As libpq reports a session to an address.
    assert describe_dsn("host=10.6.6.6 hostaddr=10.6.6.6 dbname=x") == "x@10.6.6.6:5432"
    assert describe_dsn("service=s host=evil") == "service s at evil"
    assert describe_dsn("service=s") == "service s"


def test_a_server_that_refuses_this_program_does_answer() -> None:
    denied = AccessDenied("password authentication failed", hint="write it into ~/.pgpass")
    found = own_location.finding("n", denied, "q", rebase=False)
    assert "does not answer" not in found.what
    assert found.do == "write it into ~/.pgpass"
    silent = own_location.finding("n", NodeUnreachable("timeout"), "q", rebase=True)
    assert "does not answer" in silent.what
    assert silent.do == "londiste move-node n CONNECTION; before it: londiste queue rebase"


@pytest.mark.parametrize(
    ("found", "theirs", "original"),
    [
        ("leaf", {}, True),
        ("renamed", {"root": "host=r", "renamed": "host=l"}, True),
        ("renamed", {"root": "host=r2", "two": "host=t", "renamed": "host=l"}, True),
        # The address was given to another cascade, whose root has the usual name, too.
        ("other", {"root": "host=x", "other": "host=l"}, False),
        ("other", {"leaf": "host=l", "other": "host=x"}, False),
        ("root", {"root": "host=r", "leaf": "host=l"}, False),
    ],
)
def test_a_renamed_original_is_of_the_same_cascade(
    found: str, theirs: dict[str, str], original: bool
) -> None:
    known = {"root": "host=r", "leaf": "host=l", "two": "host=t"}
    assert copied_database.is_original(found, "leaf", known, theirs) is original
