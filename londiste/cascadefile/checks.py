"""Checks of planned actions in the database of the root: keys of tables, and row conditions."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from londiste.cascadefile.action import Action, Kind
from londiste.db.connection import Connection
from londiste.errors import BadOption, UsageError
from londiste.handlers import condition, table_rules
from londiste.handlers.base import TableRules
from londiste.replication.commands.add_table_checks import TableInCopy, check_table, look
from londiste.replication.model import TableOptions
from londiste.settings.cascade_file import CascadeFile


def require_possible(root: Connection, file: CascadeFile, actions: Sequence[Action]) -> None:
    """Raises what a later step of ``apply`` would raise after the first ones are done."""
    for action in actions:
        if action.kind is Kind.ADD and action.role == "root":
            _require_keys(root, file, action)
        where = dict(action.attrs).get(table_rules.WHERE)
        if action.kind in (Kind.ADD, Kind.RULE) and where and not action.resumed:
            _require_condition(root, file, action, where)


def _require_keys(root: Connection, file: CascadeFile, action: Action) -> None:
    if file.tables is None or file.tables.keyless:
        return
    found = look(root, action.tables)
    for name in action.tables:
        facts = found.get(name)
        if facts is None or facts.has_key or not facts.has_columns:
            continue
        try:
            check_table(root, name, facts, TableOptions())
        except TableInCopy:
            # It has a key after the copy.
            continue
        except UsageError as error:
            error.say_more(
                "nothing was changed",
                hint='write keyless = "whole_row" (rows match by all columns) or'
                f' keyless = "insert_only" into [tables] of {shlex.quote(str(file.path))}; or add'
                " a primary key",
            )
            raise


def _require_condition(root: Connection, file: CascadeFile, action: Action, where: str) -> None:
    for name in action.tables:
        try:
            condition.check(root, name, TableRules(where=where))
        except BadOption as error:
            raise BadOption(
                f"{file.path}: node {action.node}: {error.message.removeprefix('--')}",
                detail=error.detail,
                hint=error.hint.replace("--where", "where ="),
            ) from error
