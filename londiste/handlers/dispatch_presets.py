"""Presets of the handler ``dispatch``: names for usual sets of its options."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from londiste.handlers.base import option
from londiste.handlers.dispatch import Dispatch, LoadMode, PartMode, RowMode, TableMode
from londiste.handlers.partitions import Period

_PERIODS = {"hourly": Period.HOUR, "daily": Period.DAY, "monthly": Period.MONTH}
_PERIODS["yearly"] = Period.YEAR
_MODES = {
    "event": PartMode.EVENT,
    "batch": PartMode.BATCH,
    "field": PartMode.FIELD,
    "time": PartMode.CURRENT,
}


def _presets() -> Iterator[tuple[str, dict[str, Any]]]:
    for load, prefix in ((LoadMode.DIRECT, ""), (LoadMode.BULK, "bulk_")):
        for adverb, period in _PERIODS.items():
            for word, mode in _MODES.items():
                yield (
                    f"{prefix}{adverb}_{word}",
                    {
                        "part_mode": mode,
                        "period": period,
                        "row_mode": RowMode.LATEST,
                        "load_mode": load,
                    },
                )
        yield f"{prefix}direct", {"table_mode": TableMode.DIRECT, "load_mode": load}


#: The names that stand for usual sets of options, and the defaults of each.
PRESETS: Mapping[str, Mapping[str, Any]] = dict(_presets())


@functools.cache
def preset(name: str) -> type[Dispatch]:
    """A handler that is dispatch with the defaults of a preset.

    It is made when it is wanted: the classes of all presets took a tenth of the start of a program.
    """
    defaults = PRESETS[name]
    does = "dispatch into the table itself."
    if "period" in defaults:
        does = (
            f"dispatch into a partition for each {defaults['period'].value}"
            f" by {defaults['part_mode'].value}, with the latest version of each row."
        )
    fields = {field.name: field for field in dataclasses.fields(Dispatch)}
    made = dataclasses.make_dataclass(
        name,
        [
            (key, type(value), option(value, help=fields[key].metadata["help"]))
            for key, value in defaults.items()
        ],
        bases=(Dispatch,),
        frozen=True,
        namespace={"NAME": name, "__doc__": does, "__module__": __name__},
    )
    assert issubclass(made, Dispatch)
    return made
