"""Errors without values of rows, for readers without rights on the table."""

from __future__ import annotations

import re

import psycopg

from londiste.daemon import logcontext
from londiste.error_values import Values, shown
from londiste.errors import EventError, LondisteError
from londiste.wording import bounded, detail_without_values, without_value


def format_error(error: psycopg.Error, values: Values = Values.APART) -> str:
    """The server's message without values of rows."""
    return bounded(shown(error, values).message)


def format_detail(error: psycopg.Error) -> str:
    """The server's detail without values of rows; '' if it has none."""
    return shown(error).detail


def stored_error(error: LondisteError, table: str = "") -> str:
    """What is stored of an error for ``status`` and its readers: without values of rows.

    table -- that was written, if it is known.
    """
    message, detail = _hidden(error)
    return origin(error, table) + (f"{message} ({detail})" if detail else message)


def origin(error: LondisteError, table: str = "") -> str:
    """What is stored before the words of code of a table; '' for errors of others.

    The code may say anything, so readers who may see no values get no more than this.
    """
    for one in logcontext.causes(error):
        if isinstance(one, LondisteError) and one.by_code:
            found = one.finding if isinstance(one, EventError) else None
            name = found.dest if found is not None else table
            return f"code of {f'table {name}' if name else 'a table'} raised {one.sqlstate}: "
    return ""


_BY_CODE = re.compile(r"(?s)(\bcode of (?:a table|table .+?) raised [0-9A-Z]{5}): .*")


def without_code(text: str) -> str:
    """Pure: a stored error without what code of a table says."""
    return _BY_CODE.sub(r"\1", text)


def hide_values(error: LondisteError) -> None:
    """Removes the values of rows from an error's message and detail; its cause still has them."""
    error.message, error.detail = _hidden(error)


def _hidden(error: LondisteError) -> tuple[str, str]:
    """Message and detail without values of rows."""
    states = (getattr(one, "sqlstate", None) for one in logcontext.causes(error))
    state = next(filter(None, states), "")
    message = bounded(without_value(error.message, state))
    # Cut behind the values: a value without its end would not be found.
    return message, bounded(detail_without_values(error.detail, state))
