"""Completes commands in hints with the options of the call, so that they can be pasted.

``londiste wait-sync`` becomes ``londiste -c leaf.toml wait-sync`` in the answer to a call with
``-c leaf.toml``.  A hint about another node stays as it is, and no password is repeated.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from londiste.wording import calls

#: Options before the command that a hint repeats; they have a value.
_IN_FRONT = ("-c", "--config", "--node")
#: Options of commands that say where a database is.
_BEHIND = ("--db", "--from", "--to")
#: Commands that read no settings.
_WITHOUT_SETTINGS = frozenset(("completion", "config", "demo", "help", "version"))


@dataclass(frozen=True)
class Given:
    """The options of a call that hints repeat, each with its value."""

    front: tuple[str, ...] = ()
    behind: Mapping[str, str] | None = None


def given(argv: Sequence[str]) -> Given:
    """The options of a call; those with a password are excluded."""
    front: list[str] = []
    behind: dict[str, str] = {}
    before = True
    position = 0
    while position < len(argv):
        word = argv[position]
        position += 1
        option, equals, value = word.partition("=")
        if not word.startswith("-"):
            before = False
            continue
        known = option in (*_IN_FRONT, "--set") if before else option in _BEHIND
        if not known:
            continue
        if not (equals and option.startswith("--")):
            if position >= len(argv):
                break
            option, value = word, argv[position]
            position += 1
        if option == "--set" and not _is_side(value):
            continue
        if _is_secret(option, value):
            continue
        if before:
            front += [option, value]
        else:
            behind[option] = value
    return Given(tuple(front), behind)


#: The command that words begin with (``queue dead list``), and its options; None: no command.
Lookup = Callable[[Sequence[str]], tuple[str, Collection[str]] | None]


def completed(text: str, call: Given, lookup: Lookup) -> str:
    """Pure: the text with the options of the call in its commands."""
    result, last = "", 0
    for start, elsewhere in calls(text):
        known = lookup(re.findall(r"[a-z-]+|.", text[start:])[:5:2])
        if known is None or known[0] in _WITHOUT_SETTINGS or elsewhere:
            continue
        command, options = known
        end = start + len(command)
        own = re.split(r";|, then |, or |\n| \(", text[end:])[0]
        front = " ".join(map(shlex.quote, call.front))
        behind = "".join(
            f" {option} {shlex.quote(value)}"
            for option, value in (call.behind or {}).items()
            if option in options and not re.search(rf"(^| ){option}\b", own)
        )
        result += text[last:start] + (f"{front} " if front else "") + command + behind
        last = end
    return result + text[last:]


# Settings and the driver are imported where a call has something for them: not for --help.


def _is_side(value: str) -> bool:
    from londiste.settings.pair import SIDE

    return value.startswith(f"{SIDE}=")


def _is_secret(option: str, value: str) -> bool:
    if option in (*_IN_FRONT, "--set"):
        return False
    import psycopg
    from psycopg import conninfo

    from londiste.dsn import SECRETS

    try:
        return bool(conninfo.conninfo_to_dict(value).keys() & set(SECRETS))
    except psycopg.Error:
        # Where a password begins in a text that libpq cannot read, nobody can tell.
        return not value.isalnum()
