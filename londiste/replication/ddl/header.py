"""Header of a script: the nodes on which it runs, and placeholders for table names.

    --*-- Local-Table: public.orders,
    --*--              public.lines
    --*-- Need-Schema: reports
    alter table @public.orders@ add column note text;

Leading comment lines with the prefix ``--*--``; a comma at the end continues in the next such line.
Ordinary comments and empty lines may stand between them; the first line of SQL ends the head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote

from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.replication.model import decode_attrs


class Condition(StrEnum):
    """A kind of object that a node must have."""

    LOCAL_TABLE = "local-table"
    LOCAL_SEQUENCE = "local-sequence"
    LOCAL_DESTINATION = "local-destination"
    NEED_TABLE = "need-table"
    NEED_SEQUENCE = "need-sequence"
    NEED_FUNCTION = "need-function"
    NEED_SCHEMA = "need-schema"
    NEED_VIEW = "need-view"

    @property
    def is_local(self) -> bool:
        """Whether its values can be placeholders ``@name@`` of the script."""
        return self.value.startswith("local-")


@dataclass(frozen=True)
class Attributes:
    """Conditions of a script with their values, in their order."""

    pairs: Mapping[Condition, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of_script(cls, script: str) -> Attributes:
        """Parses the header of a script.  Raises BadOption for an unknown key."""
        pairs: dict[Condition, list[str]] = {}
        goes_on: Condition | None = None
        for number, line in enumerate(script.splitlines(), 1):
            text = line.strip()
            if not text.startswith("--*--"):
                if text and not text.startswith("--"):
                    break
                continue
            text = text[len("--*--") :].strip()
            if goes_on is None:
                key, colon, text = text.partition(":")
                if not colon:
                    raise BadOption(
                        f"line {number}: not an attribute: {line.strip()}",
                        hint="write --*-- Key: value, value; or remove the two stars",
                    )
                goes_on = _condition(key.strip(), f"line {number}")
            values = pairs.setdefault(goes_on, [])
            values += [value.strip() for value in text.split(",") if value.strip()]
            if not text.endswith(","):
                if not values:
                    raise BadOption(
                        f"line {number}: attribute {goes_on.value} has no value",
                        hint="name the objects that the node must have",
                    )
                goes_on = None
        if goes_on is not None:
            raise BadOption(
                f"attribute {goes_on.value} ends with a comma", hint="remove the last comma"
            )
        return cls({key: tuple(values) for key, values in pairs.items()})

    @classmethod
    def decode(cls, text: str | None) -> Attributes:
        """Parses the stored form.  Raises BadOption."""
        return cls(
            {
                _condition(key, "the event"): tuple(v for v in value.split(",") if v)
                for key, value in decode_attrs(text).items()
            }
        )

    def encode(self) -> str | None:
        """The form in which they are stored and sent; None when there are none."""
        return (
            "&".join(f"{key.value}={quote(','.join(v), safe='')}" for key, v in self.pairs.items())
            or None
        )

    def decide(self, has: Callable[[Condition, str], bool], name: str) -> bool:
        """Whether a node that ``has`` these objects runs the script: all or none.

        Raises BadOption when it has some of them only.
        """
        there: list[str] = []
        missing: list[str] = []
        for condition, values in self.pairs.items():
            for value in values:
                text = f"{condition.value} {value}"
                (there if has(condition, value) else missing).append(text)
        if there and missing:
            raise BadOption(
                f"script {name} partially matches this node",
                detail=f"present: {', '.join(there)}; missing: {', '.join(missing)}",
                hint="require objects that always exist together, or write two scripts",
            )
        return not missing

    def placeholders(self) -> Sequence[str]:
        """The names that can be placeholders ``@name@``."""
        return [v for key, values in self.pairs.items() if key.is_local for v in values]


def fill(script: str, names: Mapping[str, TableName]) -> str:
    """The script with every ``@name@`` replaced by the quoted name that it has on the node."""
    for name, dest in names.items():
        script = script.replace(f"@{name}@", dest.quoted)
    return script


def hide(script: str, names: Sequence[str]) -> str:
    """The script with every ``@name@`` replaced by a plain word of the same length."""
    for name in names:
        script = script.replace(f"@{name}@", "x" * (len(name) + 2))
    return script


def _condition(key: str, where: str) -> Condition:
    try:
        return Condition(key.lower())
    except ValueError:
        raise BadOption(
            f"{where}: unknown attribute: {key}",
            hint=f"use one of {', '.join(c.value for c in Condition)}",
        ) from None
