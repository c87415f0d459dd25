"""Options of adding tables that do not go together, found before anything is looked at."""

from __future__ import annotations

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
    """Raises BadOption for options that do not go together, or are none."""
    wrong = sorted(set(options.trigger_flags.upper()) - _LETTERS)
    if wrong:
        raise BadOption(
            f"--trigger-flags {options.trigger_flags}: no flag {wrong[0]}",
            hint="letters: B before, A after, C own capture, Q sqltriga, L logutriga, J jsontriga,"
            " I insert, U update, D delete, S skip",
        )
    if options.trigger and TRIGGERS.get(options.trigger) is None:
        raise BadOption(
            f"--trigger {options.trigger}: no such trigger",
            hint=f"write one of {', '.join(TRIGGERS)}",
        )
    if options.choice.columns and options.choice.skip_columns:
        raise BadOption(
            "--columns and --skip-columns", hint="give one: those to keep, or those to leave out"
        )
    chosen = sorted(set(options.trigger_flags.upper()) & set(TRIGGERS.values()))
    letter = TRIGGERS.get(options.trigger, "")
    if letter and any(other != letter for other in chosen):
        raise BadOption(
            f"--trigger {options.trigger} and --trigger-flags {options.trigger_flags}",
            detail=f"the letter {next(c for c in chosen if c != letter)} names another trigger",
            hint="leave one of the two out; C Q L J in --trigger-flags are the same choice",
        )
    if options.form:
        _check_form(options, letter or "".join(chosen[:1]))
    if letter == "C" and set(options.trigger_flags.upper()) & {"B", "S"}:
        raise BadOption(
            f"--trigger capture and --trigger-flags {options.trigger_flags}",
            detail="our own capture neither fires before a change nor skips it",
            hint="choose a compatible trigger for that: --trigger jsontriga",
        )


def of_part(node: NodeInfo, options: TableOptions) -> TableOptions:
    """The options as they are meant on a leaf that merges into a combined queue.

    Raises BadOption for what the subscribers of the combined queue could not repeat.
    """
    if options.wants.events is not None or options.choice.on_error not in {"", "halt"}:
        given = "--handler" if options.wants.events is not None else "--on-error"
        raise BadOption(
            f"{given} on node {node.name}, which merges into queue {node.combined_queue}",
            detail="the combined queue has the events and not what is made of them here: its"
            " subscribers would come to other rows",
            hint=f"leave {given} out",
        )
    if node.combined_type is NodeType.BRANCH:
        # Nothing is copied, and nothing emptied: the rows come through the combined queue.
        return replace(options, merge="", skip_truncate=False, copy_node="")
    return options


def _check_form(options: TableOptions, letter: str) -> None:
    """Refuses a form for anything but our own capture, and two forms."""
    if letter not in {"", "C"} or set(options.trigger_flags.upper()) & {"B", "S"}:
        raise BadOption(
            f"--form {options.form} with a compatible trigger",
            detail="row and statement are forms of our own capture",
            hint="leave --form out, or choose --trigger capture",
        )
    given = [arg for arg in options.trigger_args if arg.startswith("form=")]
    if given:
        raise BadOption(
            f"--form {options.form} and --trigger-arg {given[0]}",
            hint="leave one of the two out",
        )


def name_hint(text: str) -> str:
    """What may be wrong with a name that means nothing."""
    if '"' in text:
        return "write names as they are, without double quotes"
    if text.count(".") > 1:
        return (
            "the first dot ends the schema's name; a schema with a dot in its name cannot be"
            " replicated before it is renamed"
        )
    return ""


def one_with_dest(picked: Selected, options: TableOptions) -> None:
    """Raises BadOption for one name here of several tables."""
    if options.dest is not None and len(picked.chosen) > 1:
        raise BadOption(
            f"--dest-table with {len(picked.chosen)} tables",
            hint="add tables with another name one by one",
        )


def check_whole_row(table: TableName, words: Sequence[str]) -> None:
    """Refuses, on the root, a trigger that does not tell the old row of a table without key.

    words -- for ``londiste.local_add_table``; they have whole_row for such a table alone.
    """
    if "whole_row" not in words or "no_triggers" in words:
        return
    flags = [w.partition("=")[2] for w in with_trigger(words) if w.startswith("tgflags=")]
    if "C" not in flags[-1]:
        raise BadOption(
            f"--whole-row for table {table}: a compatible trigger does not tell the old row",
            detail="nobody could find the row that an update was about",
            hint="leave the trigger to the command, or choose our own: --trigger capture",
        )


def large_whole_row(table: TableName, words: Sequence[str], rows: float) -> list[str]:
    """What to say of a large table that is replicated by whole rows."""
    if "whole_row" not in words or rows < _LARGE:
        return []
    return [
        f"table {table} has about {round(rows)} rows and no key: each batch that updates or deletes"
        " some reads all of it on every subscriber; name columns that identify a row, if there are"
        " any: --trigger-arg pkey=a,b"
    ]
