"""Whatever is typed or stands in a file is read, or refused in one line."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from londiste import dsn as connection_strings
from londiste.errors import BadOption, LondisteError
from londiste.replication.ddl import header, split
from londiste.settings import cascade_file, loading
from londiste.settings.kinds import WorkerSettings
from londiste.shell import lexer
from tests.unit.fuzz.corpus import texts

_IN_A_FOLDER = settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@settings(max_examples=300)
@given(texts)
def test_a_script_is_cut_into_its_own_text_or_refused(text: str) -> None:
    try:
        statements = split.split(text)
    except BadOption as error:
        assert error.hint
        return
    at = 0
    for number, statement in enumerate(statements, 1):
        at = text.index(statement.text, at) + len(statement.text)
        assert statement.number == number


@settings(max_examples=200)
@given(texts)
def test_the_shell_loses_no_word(text: str) -> None:
    statements, rest = lexer.split(text)
    for statement in (*statements, rest):
        assert statement.strip() in text


@settings(max_examples=200)
@given(texts)
@example("host=/tmp password=hunter2 password='x")
@example("postgresql://u:hunter2@h:port/db")
def test_a_connection_string_is_shown_without_its_password(text: str) -> None:
    for show in (connection_strings.masked, connection_strings.describe_dsn):
        assert "hunter2" not in show(text)
    connection_strings.without_secrets(text)
    connection_strings.secrets_of(text)


_values = st.recursive(
    st.one_of(st.text(max_size=8), st.integers(), st.booleans(), st.floats()),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)


@_IN_A_FOLDER
@given(text=texts, ini=st.booleans())
@example(text='[londiste]\ndb = "dbname=a"\nqueue_name = "q"\npoll_interval = 1e400\n', ini=False)
@example(text="[londiste]\ndb = %(db)s\n", ini=True)
@example(text='[nodes.a]\ndb = 1\n[tables]\n"*" = 3\n', ini=False)
@example(text='[nodes."a b"]\ndb = "x"\nrole = "root"\nprovider = "a b"\n', ini=False)
def test_a_settings_file_is_read_or_refused(text: str, ini: bool, tmp_path: Path) -> None:
    file = tmp_path / ("x.ini" if ini else "x.toml")
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    for read in (
        lambda: loading.load(WorkerSettings, file),
        lambda: cascade_file.read(file),
    ):
        try:
            read()
        except LondisteError as error:
            assert str(error)


@_IN_A_FOLDER
@given(key=st.sampled_from(sorted(WorkerSettings.model_fields)), value=_values)
def test_a_value_of_any_type_is_taken_or_refused(key: str, value: object) -> None:
    given_values = {"db": "dbname=x", "queue_name": "q", "job_name": "j", key: value}
    try:
        loading.load(WorkerSettings, None, given_values)
    except LondisteError as error:
        assert error.hint or error.detail or str(error)


@settings(max_examples=300)
@given(texts)
@example("--*-- Local-Table: a,\n--*-- b\n")
@example("--*-- Nothing: a\n")
def test_the_header_of_a_script_is_read_or_refused(text: str) -> None:
    for read in (header.Attributes.of_script, header.Attributes.decode):
        try:
            found = read(text)
        except BadOption as error:
            assert error.hint
            continue
        assert header.Attributes.decode(found.encode()) is not None
