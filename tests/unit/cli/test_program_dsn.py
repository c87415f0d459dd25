"""Secrets of connection strings for other programs: in no argument, in a file of this user."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from psycopg import conninfo

from londiste.db.connstr.program_dsn import arguments_without_secrets
from londiste.errors import UsageError


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGSERVICE", "PGSERVICEFILE", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)


def test_every_secret_is_in_the_environment_or_in_a_file_of_this_user() -> None:
    with arguments_without_secrets(
        "host=h dbname=d password='top # s3cret' sslpassword=key-s3cret"
    ) as (shown, environment):
        assert "s3cret" not in shown
        assert conninfo.conninfo_to_dict(shown) == {
            "host": "h",
            "dbname": "d",
            "service": "londiste",
            **({"sslmode": "verify-full"} if "sslmode" in shown else {}),
        }
        assert environment["PGPASSWORD"] == "top # s3cret"
        file = Path(environment["PGSERVICEFILE"])
        assert file.read_text() == "[londiste]\nsslpassword=key-s3cret\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not file.parent.exists()


def test_a_service_keeps_what_the_connection_string_does_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = tmp_path / "services"
    services.write_text("[shop]\nhost=h\nport=5\npassword=of-file\nsslpassword=of-file\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    with arguments_without_secrets("service=shop dbname=d port=6") as (shown, environment):
        # It has no secret: the file of the user says it all.
        assert conninfo.conninfo_to_dict(shown) == {"service": "shop", "dbname": "d", "port": "6"}
        assert environment["PGSERVICEFILE"] == str(services)
    for given, name in (("service=shop ", None), ("", "shop")):
        if name is not None:
            monkeypatch.setenv("PGSERVICE", name)
        with arguments_without_secrets(f"{given}dbname=d port=6 password=mine") as (
            shown,
            environment,
        ):
            found = conninfo.conninfo_to_dict(shown)
            assert (found["host"], found["port"], found["dbname"]) == ("h", "6", "d")
            assert environment["PGPASSWORD"] == "mine" and "PGSERVICE" not in environment
            file = Path(environment["PGSERVICEFILE"])
            assert file.read_text() == "[londiste]\nsslpassword=of-file\n"
    with arguments_without_secrets("dbname=d sslpassword=other") as (shown, environment):
        assert conninfo.conninfo_to_dict(shown)["service"] == "londiste"
        assert environment["PGPASSWORD"] == "of-file"
        assert "sslpassword=other" in Path(environment["PGSERVICEFILE"]).read_text()


@pytest.mark.parametrize("odd", ["'two\nlines'", "' space'", "x" * 1001])
def test_a_secret_that_no_service_file_can_contain_is_refused(odd: str) -> None:
    with (
        pytest.raises(UsageError, match="sslpassword of the connection string cannot") as caught,
        arguments_without_secrets(f"dbname=d sslpassword={odd}"),
    ):
        pass
    assert odd.strip("'") not in str(caught.value)
