"""What is stored of an error has no value of a row."""

from __future__ import annotations

import pickle

import psycopg
import pytest

from londiste.changes.row_values import stored_error
from londiste.console.facts import masked_text
from londiste.error_values import Values, shown
from londiste.errors import LondisteError, from_database
from londiste.wording import exception_text


@pytest.mark.parametrize(
    ("detail", "stored"),
    [
        ("", "refused"),
        ("Failing row contains (1, (a) secret).", "refused (Failing row contains (…).)"),
        (
            "Failing row contains (1, secret\n).; chunk 0 of public.t",
            "refused (Failing row contains (…).; chunk 0 of public.t)",
        ),
        (
            "Key (id, lower(v))=(1, secret (x)) already exists.",
            "refused (Key (id, lower(v))=(…) already exists.)",
        ),
        (
            "Partition key of the failing row contains (a, lower(v)) = (5, secret (x)).",
            "refused (Partition key of the failing row contains (a, lower(v)) = (…).)",
        ),
        ("chunk 0 of public.t", "refused (chunk 0 of public.t)"),
    ],
)
def test_details_of_the_server_have_no_values(detail: str, stored: str) -> None:
    assert stored_error(LondisteError("refused", detail=detail)) == stored


def test_a_long_text_is_stored_in_part_and_its_values_are_not() -> None:
    error = LondisteError(
        f'invalid input for "{"secret" * 5_000}" in a row',
        detail=f"Failing row contains ({'secret' * 5_000}).",
    )
    error.__cause__ = psycopg.errors.InvalidTextRepresentation()
    assert stored_error(error) == "invalid input for *** in a row (Failing row contains (…).)"
    long = stored_error(LondisteError("boom " + "A" * 200_000))
    assert len(long) < 2_100 and long.endswith("A… (of 200,005 characters)")


def test_what_a_server_reports_is_short_in_every_part() -> None:
    long = "must be owner of table " + "A" * 3_000_000

    class Refused(psycopg.errors.InsufficientPrivilege):
        class diag:  # noqa: N801 - the driver's name
            message_primary = message_detail = message_hint = long
            severity_nonlocalized = context = None

    class Value(psycopg.errors.InvalidTextRepresentation):
        class diag:  # noqa: N801 - the driver's name
            message_primary = f'invalid input "{"secret" * 30_000}" in a row'
            message_detail = f"Failing row contains ({'failing row contains (' * 30_000})."
            message_hint = context = severity_nonlocalized = None

    for error in (Refused(), Value(), psycopg.OperationalError(f"FATAL:  {long}")):
        found = from_database(error, where="here")
        for text in (found.message, found.detail, found.hint):
            assert len(text) < (8_100 if text == found.detail else 2_100)
            assert "secret" not in text
    assert from_database(Refused()).message.endswith("A… (of 3,000,023 characters)")
    Refused.diag.message_hint = None
    assert len(from_database(Refused()).hint) < 2_100


@pytest.mark.parametrize("value", ["secret", '{"name": "secret"}', 'a "secret"\n" b'])
def test_a_value_that_a_type_refuses_is_not_stored(value: str) -> None:
    error = LondisteError(f'invalid input syntax for type integer: "{value}"')
    error.__cause__ = psycopg.errors.InvalidTextRepresentation()
    assert stored_error(error) == "invalid input syntax for type integer: ***"
    error.__cause__ = psycopg.errors.UndefinedColumn()
    assert "secret" in stored_error(error)


def test_what_a_task_of_another_process_refused_has_no_value_either() -> None:
    class Refused(psycopg.errors.InvalidTextRepresentation):
        class diag:  # noqa: N801 - the driver's name
            message_primary = 'malformed array literal: "secret"'
            message_detail = 'Token "secret" is invalid.'
            message_hint = context = severity_nonlocalized = None

    # The cause of an error stays in the process of the task.
    error = pickle.loads(pickle.dumps(from_database(Refused(), where="here")))
    error.say_more("chunk 0 of public.t")
    assert stored_error(error) == (
        "here: malformed array literal: *** (Token *** is invalid.; chunk 0 of public.t)"
    )


def test_an_error_of_the_driver_keeps_no_value_of_its_detail() -> None:
    class Refused(psycopg.errors.ForeignKeyViolation):
        class diag:  # noqa: N801 - the driver's name
            message_primary = 'insert on table "c" violates foreign key constraint "k"'
            message_detail = 'Key (p)=(secret) is not present in table "p".'
            message_hint = context = severity_nonlocalized = None

    found = from_database(Refused(), where="here")
    assert found.detail == 'Key (p)=(…) is not present in table "p".'


def test_an_error_that_is_its_own_cause_is_stored() -> None:
    error, other = LondisteError("refused"), LondisteError("again")
    error.__cause__, other.__cause__ = other, error
    assert stored_error(error) == "refused"


def server(state: str, message: str, detail: str = "", **fields: str) -> psycopg.Error:
    """An error as a server raises it."""
    told = {
        "severity": "ERROR",
        "severity_nonlocalized": "ERROR",
        "message_primary": message,
        "message_detail": detail,
        **dict.fromkeys(("message_hint", "context", "source_function")),
        **fields,
    }
    kind = psycopg.errors.lookup(state)
    return type(kind.__name__, (kind,), {"diag": type("diag", (), told)})()


GERMAN = {"severity": "FEHLER"}
RAISED = {
    "context": "PL/pgSQL-Funktion f() Zeile 1 bei RAISE",
    "source_function": "exec_stmt_raise",
}


@pytest.mark.parametrize(
    ("error", "message", "detail"),
    [
        (
            server("22P02", "ungültige Eingabesyntax für Typ integer: »secret«", **GERMAN),
            "invalid text representation",
            "SQLSTATE 22P02",
        ),
        (
            server("22P02", "la sintaxis no es válida para tipo integer: «secret»"),
            "invalid text representation",
            "SQLSTATE 22P02",
        ),
        (
            server(
                "23502",
                "el valor nulo en la columna «n» viola la restricción de no nulo",
                "La fila que falla contiene (1, null, secret).",
                table_name="t",
                column_name="n",
            ),
            "el valor nulo en la columna «n» viola la restricción de no nulo",
            "SQLSTATE 23502, table t, column n",
        ),
        (
            server(
                "23514",
                'リレーション"t"の行に対応するパーティションが見つかりません',
                "失敗した行のパーティションキーは(id) = (secret)を含みます。",
            ),
            'リレーション"t"の行に対応するパーティションが見つかりません',
            "SQLSTATE 23514",
        ),
        (
            server(
                "23502",
                'null value in column "n" violates not-null constraint',
                "La fila que falla contiene (1, null, secret).",
            ),
            'null value in column "n" violates not-null constraint',
            "SQLSTATE 23502",
        ),
        (
            server("44000", 'new row violates check option for view "v"', "Row: (secret)."),
            'new row violates check option for view "v"',
            "SQLSTATE 44000",
        ),
        (
            server("23514", "an order needs lines", "Of customer (secret, 1): none.", **RAISED),
            "an order needs lines",
            "Of customer (…): none.",
        ),
        (
            server("P0003", "query returned more than one row", "parameters: v = 'secret'"),
            "query returned more than one row",
            "",
        ),
        (
            server("54000", 'word is too long in tsquery: "secret"'),
            "word is too long in tsquery: ***",
            "",
        ),
        (
            server(
                "54000",
                'index row size 2800 exceeds btree version 4 maximum 2704 for index "i"',
                constraint_name="i",
            ),
            'index row size 2800 exceeds btree version 4 maximum 2704 for index "i"',
            "",
        ),
        (
            server(
                "42P01",
                'relation "audit.secret" does not exist',
                internal_position="13",
                context="PL/pgSQL function public.f() line 1 at EXECUTE",
            ),
            "relation *** does not exist",
            "",
        ),
        (
            server(
                "42P01",
                'relation "audit.log" does not exist',
                internal_position="13",
                context="PL/pgSQL function public.f() line 1 at SQL statement",
            ),
            'relation "audit.log" does not exist',
            "",
        ),
        (
            server(
                "42703",
                'column "no" of relation "t" does not exist',
                internal_position="13",
                context="PL/pgSQL関数londiste_apply.write_as_7(text)の1行目 - EXECUTE",
            ),
            'column "no" of relation "t" does not exist',
            "",
        ),
        (
            server(
                "23514",
                "neue Zeile für Relation »t« verletzt Check-Constraint »k«",
                "Fehlgeschlagene Zeile enthält (1, secret).",
                **GERMAN,
                schema_name="c",
                table_name="t",
                constraint_name="k",
            ),
            "neue Zeile für Relation »t« verletzt Check-Constraint »k«",
            "SQLSTATE 23514, table c.t, constraint k",
        ),
        (
            server("42601", "Syntaxfehler in tsvector: »'secret«", **GERMAN),
            "syntax error",
            "SQLSTATE 42601",
        ),
        (server("42P01", 'relation "secret" does not exist'), "relation *** does not exist", ""),
        (
            server(
                "42601",
                "improper relation name (too many dotted names): a.secret",
                context='COPY t, line 3, column r: "a.secret"',
            ),
            "improper relation name (too many dotted names): ***",
            "column r",
        ),
        (
            server("2200N", "invalid XML content", "line 1: end in tag secret\n<secret>\n ^"),
            "invalid XML content",
            "line 1: ***",
        ),
        (
            server("XX000", "parse error - invalid geometry", message_hint='"secret" <-- here'),
            "parse error - invalid geometry",
            "",
        ),
        (
            server("42703", 'column "no" does not exist', statement_position="8"),
            'column "no" does not exist',
            "",
        ),
        # The author of a trigger decides what it says.
        (server("P0001", "kein »Wert« hier", **GERMAN, **RAISED), "kein »Wert« hier", ""),
    ],
)
def test_an_error_of_a_statement_with_values_shows_none(
    error: psycopg.Error, message: str, detail: str
) -> None:
    assert shown(error, Values.APART) == (message, detail, "")


@pytest.mark.parametrize(
    "fields", [RAISED, {**RAISED, "source_function": "exec_stmt_assert"}, {"context": "at f()"}]
)
def test_words_of_code_of_a_table_can_be_told_from_others(fields: dict[str, str]) -> None:
    raised = server("38000" if len(fields) == 1 else "P0001", "own\nwords", "and own", **fields)
    # An error of the process of a task, with another around it.
    error = LondisteError("chunk 0: own words")
    error.__cause__ = pickle.loads(pickle.dumps(from_database(raised, where="here")))
    for table, named in (("s.t", "table s.t"), ("", "a table")):
        text = stored_error(error, table)
        assert text == f"code of {named} raised {raised.sqlstate}: chunk 0: own words"
        for stored in (text, f"w: {text}; hint: own words", text + "\nown words"):
            assert masked_text(stored).endswith(f"code of {named} raised {raised.sqlstate}")
    assert stored_error(from_database(server("42P01", "no table", context="at f()"))).startswith(
        "no"
    )


def test_a_statement_that_contains_values_is_not_trusted_for_its_position() -> None:
    error = server("42P01", 'relation "secret" does not exist', statement_position="8")
    assert shown(error, Values.INSIDE).message == "relation *** does not exist"
    assert shown(error).message == 'relation "secret" does not exist'


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (server("42P01", 'relation "nope" does not exist'), 'relation "nope" does not exist'),
        (
            server("42701", 'column "v" of relation "nope" already exists'),
            'column "v" of relation "nope" already exists',
        ),
        (
            server("42P01", "Relation »nope« existiert nicht", **GERMAN),
            "Relation »nope« existiert nicht",
        ),
        (server("42601", 'syntax error in tsquery: "secret"'), "syntax error in tsquery: ***"),
        (
            server("42601", 'syntax error in tsquery: "v" secret "v"'),
            "syntax error in tsquery: ***",
        ),
        (server("42P01", 'relation "nop" does not exist'), "relation *** does not exist"),
    ],
)
def test_a_script_is_told_the_names_that_it_contains(error: psycopg.Error, message: str) -> None:
    script = "alter table nope add column v text"
    assert shown(error, Values.APART, script).message == message


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ValueError("invalid literal for int() with base 10: 'secret'"),
            "invalid literal for int() with base 10: ***",
        ),
        (KeyError("secret"), "***"),
        (
            ValueError("Integer value secret not in range: 1 to 2"),
            "Integer value *** not in range: ***",
        ),
        (
            ValueError("1 validation error for Row\nage\n  Input, input_value='secret'"),
            "1 validation error for Row",
        ),
        (RuntimeError("no more processes: 'all'"), "no more processes: 'all'"),
    ],
)
def test_an_exception_of_python_shows_no_value(error: Exception, text: str) -> None:
    assert exception_text(error) == text
