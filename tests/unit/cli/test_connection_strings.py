"""Printed connection strings contain no password."""

from __future__ import annotations

import string
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg import conninfo, pq

from londiste.cascade.commands.endpoint import endpoint, parameters
from londiste.cascade.commands.location_check import check_location
from londiste.cli.daemons.ticker import base_database
from londiste.daemon.loop import describe
from londiste.db.connection import connect, describe_dsn, masked
from londiste.db.connstr.locations import reach
from londiste.db.names import TableName
from londiste.dsn import (
    SECRETS,
    may_show_password,
    parsed,
    secrets_of,
    with_environment,
    without_secrets,
)
from londiste.errors import BadOption, LondisteError
from londiste.lake.settings import LakeSettings
from londiste.lake.source import options
from londiste.migrate.databases import MigrateSettings, pair

T = TableName("public", "t")
# Letters that occur nowhere else in the strings, so that finding one of them is a leak.
SECRET = st.text(alphabet="ZQXVWYKJ'\\ =@:/%?#&", min_size=6, max_size=20).filter(
    lambda s: sum(c in "ZQXVWYKJ" for c in s) >= 4
)


def visible(secret: str) -> list[str]:
    """Runs of at least three letters of the secret."""
    runs: list[str] = []
    word = ""
    for char in secret + " ":
        if char in "ZQXVWYKJ":
            word += char
        else:
            runs += [word] if len(word) >= 3 else []
            word = ""
    return runs


@given(SECRET, st.sampled_from(["db", "my shop"]))
def test_a_keyword_string_shows_no_password(secret: str, database: str) -> None:
    dsn = conninfo.make_conninfo(host="h", dbname=database, password=secret)
    for shown in (masked(dsn), describe_dsn(dsn)):
        assert not [run for run in visible(secret) if run in shown]
    assert "***" in masked(dsn)


@given(st.text(alphabet="ZQXVWYKJ", min_size=6, max_size=12))
def test_a_uri_shows_no_password(secret: str) -> None:
    dsn = f"postgresql://user:{secret}@host:5433/db?application_name=x"
    assert secret not in masked(dsn) + describe_dsn(dsn)
    assert describe_dsn(dsn) == "db@host:5433"


@given(SECRET)
@example("ZQXZQX@VWYKJ")
@example("ZQXZQX/VWYKJ")
@example("ZQXZQX?VWYKJ")
@example("?@J:JJJ")
@example("ZQXZQX?host=b/VWYKJ")
def test_a_uri_with_an_unescaped_password_shows_no_part_of_it(secret: str) -> None:
    dsn = f"postgresql://user:{secret}@/db?host=/nowhere"
    shown = masked(dsn) + describe_dsn(dsn)
    with pytest.raises(LondisteError) as refused:
        connect(dsn)
    shown += describe(refused.value)
    assert not [run for run in visible(secret) if run in shown]


@given(
    st.text(alphabet=string.ascii_lowercase + "='\\ ", max_size=20), st.text("ZQXVW", min_size=6)
)
def test_a_string_that_is_none_shows_no_password_either(rubbish: str, secret: str) -> None:
    for dsn in (f"{rubbish} password={secret} host", f"postgresql://u:{secret}@h:notaport:x/"):
        assert secret not in masked(dsn)
        assert secret not in describe_dsn(dsn)


#: Parameters that libpq itself does not show, and keys that are as good as the password.
HIDDEN = {o.keyword.decode() for o in pq.Conninfo.get_defaults() if o.dispchar == b"*"} | {
    o.keyword.decode() for o in pq.Conninfo.get_defaults() if o.keyword.startswith(b"scram_")
}


@pytest.mark.parametrize("key", sorted(HIDDEN))
def test_each_secret_of_libpq_is_one(key: str) -> None:
    assert key in SECRETS
    dsn = conninfo.make_conninfo("host=h dbname=d", **{key: "geheim"})
    assert "geheim" not in masked(dsn) + without_secrets(dsn)
    assert conninfo.conninfo_to_dict(secrets_of(dsn)) == {key: "geheim"}
    with pytest.raises(BadOption, match=key):
        check_location(dsn)


@pytest.mark.parametrize("password", ["ZQX@WYK", "ZQX/WYK", "ZQX%WYK"])
@pytest.mark.parametrize(
    "use",
    [
        parsed,
        parameters,
        check_location,
        lambda dsn: base_database(dsn, "template1"),
        lambda dsn: reach("host=h dbname=x", dsn),
        lambda dsn: options(
            LakeSettings(db=dsn, queue_name="q", lake_path="/x", lake_tables="t"), T
        ),
    ],
    ids=["parsed", "--from", "location", "base_connstr", "remote_extra_connstr", "lake"],
)
def test_a_uri_with_a_sign_in_its_password_is_refused_and_the_hint_says_how_to_write_it(
    use: Callable[[str], object], password: str
) -> None:
    with pytest.raises(BadOption) as caught:
        use(f"postgresql://u:{password}@h:1/db")
    assert "% as %25, @ as %40 and / as %2F" in caught.value.hint
    assert "ZQX" not in describe(caught.value) and "WYK" not in describe(caught.value)


@pytest.mark.parametrize(
    ("dsn", "may"),
    [
        ("postgresql:///db?host=/tmp", False),
        ("postgresql://u@/db", False),
        ("postgresql://u:p@h1:1,h2:2/db", False),
        ("postgresql://u:p@[::1]:5432/db", False),
        ("postgresql://h/db?application_name=a@b", False),
        ("postgresql://u:p%40x@h/db", False),
        ("postgresql://%2Ftmp/db", False),
        ("host=h password=a@b", False),
        ("postgresql://u:ZQ@X@h/db", True),
        ("postgresql://u:ZQ/X@h/db", True),
        ("postgresql://u:ZQ?@X:Y@h/db", True),
        ("postgresql://u:ZQ?host=b/X@h/db", True),
        ("postgresql://h:abc/db", True),
    ],
)
def test_where_libpq_may_take_a_password_for_something_else(dsn: str, may: bool) -> None:
    assert may_show_password(dsn) is may


ENVIRONMENT = {"PGHOST": "h", "PGPORT": "6", "PGUSER": "u", "PGDATABASE": "d", "PGPASSWORD": "ZQX"}


@pytest.mark.parametrize(
    ("dsn", "complete"),
    [
        ("dbname=x port=5", "dbname=x port=5 host=h user=u"),
        ("postgresql://me@a:5/x", "postgresql://me@a:5/x"),
        ("postgresql:///x?port=5", "dbname=x port=5 host=h user=u"),
        ("", "host=h port=6 user=u dbname=d"),
        # The name would only be verified.
        ("dbname=x hostaddr=::1", "dbname=x hostaddr=::1 port=6 user=u"),
        # Its file names the place.
        ("service=s", "service=s"),
        # libpq would show a part of the password as a host.
        ("postgresql://u:a@b@h/x", "postgresql://u:a@b@h/x"),
        ("no string", "no string"),
    ],
)
def test_what_the_environment_says_of_the_place_is_in_the_string(dsn: str, complete: str) -> None:
    assert with_environment(dsn, ENVIRONMENT) == complete
    assert with_environment(dsn, {}) == dsn
    assert with_environment(dsn, {**ENVIRONMENT, "PGSERVICE": "s"}) == dsn


def test_the_environment_is_read_once_where_a_command_gets_its_strings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert endpoint("n", "dbname=x", "w").dsn == "dbname=x"
    both = pair(MigrateSettings(from_db="dbname=x", to_db="host=b dbname=y"))
    own = {"port": "6", "user": "u"}
    assert parameters(both.old.location) == {"dbname": "x", "host": "h", **own}
    assert parameters(both.new.location) == {"dbname": "y", "host": "b", **own}
