"""Hints of errors of a connection: each names a remedy that helps."""

from __future__ import annotations

import psycopg
import pytest

from londiste.db import tls
from londiste.db.server_text import named
from londiste.error_origin import as_hint
from londiste.errors import AccessDenied, NodeUnreachable, UsageError, from_database
from londiste.wording import at_node

STATEMENT = "alter system set {} = 256, or a number larger than the present one"


def test_each_error_of_tls_has_the_hint_that_helps() -> None:
    for message, wanted, wrong in (
        ("server does not support SSL, but SSL was required", "sslmode=prefer", "sslmode=require"),
        ('private key file "k" has group or world access', "chmod 600", "sslmode"),
        ("certificate verify failed", "sslrootcert", "chmod"),
    ):
        assert tls.is_about_tls(message), message
        assert wanted in tls.hint_for(message) and wrong not in tls.hint_for(message)


@pytest.mark.parametrize("message", ["query_wait_timeout", "no more connections allowed"])
def test_a_pool_without_connections_is_named(message: str) -> None:
    found = from_database(psycopg.OperationalError(f"FATAL:  {message}"))
    assert isinstance(found, NodeUnreachable) and "pool_size" in found.hint


def test_a_full_disk_of_the_server_is_named() -> None:
    full = "FATAL:  could not write init file: No space left on device"
    found = from_database(psycopg.OperationalError(full))
    assert isinstance(found, NodeUnreachable) and found.hint == "free space on the server's disk"


@pytest.mark.parametrize(
    "message",
    [
        "sorry, too many clients already",
        'too many connections for role "bob"',
        'too many connections for database "shop"',
        "remaining connection slots are reserved for roles with the SUPERUSER attribute",
    ],
)
def test_used_up_connections_are_named(message: str) -> None:
    found = from_database(psycopg.OperationalError(f"FATAL:  {message}"))
    assert isinstance(found, NodeUnreachable) and "raise max_connections" in found.hint
    assert "host and port" not in found.hint


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("Use a cursor. It reads less.", "Use a cursor. It reads less"),
        ("Use DROP ... CASCADE to drop the dependent objects too.", ""),
        # Before PostgreSQL 16 without quotes.
        *(
            (text, f"as a superuser: {STATEMENT.format(name)}, and restart the server")
            for name in ("max_locks_per_transaction", "max_pred_locks_per_transaction")
            for text in (
                f'You might need to increase "{name}".',
                f"You might need to increase {name}.",
            )
        ),
    ],
)
def test_a_hint_of_the_server_reads_like_ours(hint: str, shown: str) -> None:
    assert as_hint(hint) == shown


def test_a_lacking_right_on_the_database_names_its_grant() -> None:
    found = from_database(
        psycopg.errors.InsufficientPrivilege("permission denied for database shop")
    )
    assert isinstance(found, AccessDenied)
    assert 'grant create on database "shop"' in found.hint and "pgq_writer" not in found.hint


@pytest.mark.parametrize(
    ("message", "kind", "hint"),
    [
        ('role "bob" is not permitted to log in', AccessDenied, 'alter role "bob" login'),
        (
            'permission denied for database "shop"\nDETAIL:  User does not have CONNECT privilege.',
            AccessDenied,
            'grant connect on database "shop" to the user',
        ),
        ("fe_sendauth: no password supplied", AccessDenied, "~/.pgpass"),
        (
            'pg_hba.conf rejects connection for host "10.0.0.7", user "bob", database "shop"',
            AccessDenied,
            "pg_hba.conf",
        ),
        (
            'database "shop" is not currently accepting connections',
            NodeUnreachable,
            'alter database "shop" allow_connections true',
        ),
    ],
)
def test_a_refused_login_is_no_outage_of_the_server(
    message: str, kind: type[Exception], hint: str
) -> None:
    found = from_database(psycopg.OperationalError(f"FATAL:  {message}"))
    assert type(found) is kind and hint in found.hint and "host and port" not in found.hint


@pytest.mark.parametrize(
    "message",
    [
        'connection is bad: invalid sslmode value: "bogus"',
        'connection is bad: invalid target_session_attrs value: "bogus"',
        'connection is bad: invalid port number: "99999"',
        'invalid integer value "x" for connection option "connect_timeout"',
        "could not match 2 port numbers to 1 hosts",
        'FATAL:  invalid value for parameter "statement_timeout": "bad"',
        'FATAL:  unrecognized configuration parameter "nosuch"',
    ],
)
def test_a_wrong_parameter_of_a_connection_string_is_not_tried_again(message: str) -> None:
    found = from_database(psycopg.OperationalError(message))
    assert type(found) is UsageError and "host and port" not in found.hint


def test_a_login_that_a_provider_refuses_is_not_to_be_mended_on_the_node_below() -> None:
    refused = AccessDenied('role "bob" is not permitted to log in', hint='alter role "bob" login')
    with pytest.raises(AccessDenied) as found, named("provider main (shop@db1)", provider="main"):
        raise refused
    assert "provider main (shop@db1)" in found.value.message
    assert at_node(found.value.hint, "leaf") == 'for provider main: alter role "bob" login'
    with pytest.raises(AccessDenied) as own, named("node database shop@db2"):
        raise refused
    assert own.value is refused


def test_an_error_without_a_state_has_no_empty_one() -> None:
    assert not from_database(psycopg.DataError("text cannot contain NUL")).detail
    assert from_database(psycopg.errors.DivisionByZero()).detail == "SQLSTATE 22012"
