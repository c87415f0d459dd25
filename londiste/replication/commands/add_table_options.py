"""Conflicts between the options of ``add-table``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from londiste.cascade.model import NodeInfo, NodeType
from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.replication.model import TRIGGERS, TableOptions, with_trigger
from londiste.replication.patterns import Selected

_LETTERS = frozenset("BACQLJIUDS")
#: Rows from which on a table is large to be searched whole for every batch.
_LARGE = 100_000


def check(options: TableOptions) -> None:
    """Raises BadOption for unknown options, and options that exclude each other."""
    wrong = sorted(set(options.trigger_flags.upper()) - _LETTERS)
    if wrong:
        raise BadOption(
            f"--trigger-flags {options.trigger_flags}: unknown flag {wrong[0]}",
            hint="use the letters B before, A after, C native capture, Q sqltriga, L logutriga,"
            " J jsontriga, I insert, U update, D delete, S skip",
        )
    if options.trigger and TRIGGERS.get(options.trigger) is None:
        raise BadOption(
            f"--trigger {options.trigger}: unknown trigger",
            hint=f"use one of {', '.join(TRIGGERS)}",
        )
    if options.choice.columns and options.choice.skip_columns:
        raise BadOption("--columns excludes --skip-columns", hint="use one of them")
    chosen = sorted(set(options.trigger_flags.upper()) & set(TRIGGERS.values()))
    letter = TRIGGERS.get(options.trigger, "")
    if letter and any(other != letter for other in chosen):
        raise BadOption(
            f"--trigger {options.trigger} contradicts --trigger-flags {options.trigger_flags}",
            detail=f"letter {next(c for c in chosen if c != letter)} selects another trigger",
            hint="omit one of the two; C Q L J in --trigger-flags select the trigger too",
        )
    if options.form:
        _check_form(options, letter or "".join(chosen[:1]))
    if letter == "C" and set(options.trigger_flags.upper()) & {"B", "S"}:
        raise BadOption(
            f"--trigger capture contradicts --trigger-flags {options.trigger_flags}",
            detail="the native capture can neither fire before a change nor skip it",
            hint="use a compatible trigger: --trigger jsontriga",
        )


def of_part(node: NodeInfo, options: TableOptions) -> TableOptions:
    """The options as they apply on a leaf that merges into a combined queue.

    Raises BadOption for options that the combined queue's subscribers cannot follow.
    """
    if options.wants.events is not None or options.choice.on_error not in {"", "halt"}:
        given = "--handler" if options.wants.events is not None else "--on-error"
        raise BadOption(
            f"{given}: not available on node {node.name}, which merges into queue"
            f" {node.combined_queue}",
            detail="the combined queue carries unchanged events: its subscribers would get"
            " different rows",
            hint=f"omit {given}",
        )
    if node.combined_type is NodeType.BRANCH:
        # Nothing is copied, and nothing emptied: the rows come through the combined queue.
        return replace(options, merge="", skip_truncate=False, copy_node="")
    return options


def _check_form(options: TableOptions, letter: str) -> None:
    """Refuses a form for compatible triggers, and two forms."""
    if letter not in {"", "C"} or set(options.trigger_flags.upper()) & {"B", "S"}:
        raise BadOption(
            f"--form {options.form}: not available with a compatible trigger",
            detail="row and statement are modes of the native capture",
            hint="omit --form, or use --trigger capture",
        )
    given = [arg for arg in options.trigger_args if arg.startswith("form=")]
    if given:
        raise BadOption(
            f"--form {options.form} excludes --trigger-arg {given[0]}",
            hint="use one of them",
        )


#: A part of a name in double quotes, as in SQL.
_QUOTED = re.compile(r'(?:^|\.)"[^"]+"(?:\.|$)')


def name_hint(text: str) -> str:
    """A hint for a name that matches nothing."""
    if _QUOTED.search(text):
        return "write names without double quotes"
    if text.count(".") > 1:
        return "rename the schema: tables of a schema with a dot in its name cannot be replicated"
    return ""


def one_with_dest(picked: Selected, options: TableOptions) -> None:
    """Raises BadOption for one target name of several tables."""
    if options.dest is not None and len(picked.chosen) > 1:
        raise BadOption(
            f"--dest-table: {len(picked.chosen)} tables selected, one allowed",
            hint="add each table with its own --dest-table",
        )


def check_whole_row(table: TableName, words: Sequence[str]) -> None:
    """Refuses, on the root, a trigger without old row images for a table without key.

    words -- for ``londiste.local_add_table``; they have whole_row for such a table alone.
    """
    if "whole_row" not in words or "no_triggers" in words:
        return
    flags = [w.partition("=")[2] for w in with_trigger(words) if w.startswith("tgflags=")]
    if "C" not in flags[-1]:
        raise BadOption(
            f"table {table}: --whole-row does not work with a compatible trigger",
            detail="its events do not contain the old row, which identifies the row to update",
            hint="omit the trigger options, or use --trigger capture",
        )


def large_whole_row(table: TableName, words: Sequence[str], rows: float) -> list[str]:
    """A warning for a large table that is replicated by whole rows."""
    if "whole_row" not in words or rows < _LARGE:
        return []
    return [
        f"table {table}: about {round(rows)} rows and no key: each batch with updates or deletes"
        " scans the whole table on every subscriber; if columns identify a row, name them:"
        " --trigger-arg pkey=a,b"
    ]
