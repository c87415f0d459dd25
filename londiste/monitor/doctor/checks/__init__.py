"""The list of checks: each module finds one kind of defects.

A check has ``FINDINGS``, the ids that it finds, and ``check``, a pure function from the situation
to findings.  To add one: a module here, a line in ``ALL``, a section of each id in
docs/reference/doctor.md, and a defect in tests/integration/doctor/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from londiste.monitor.doctor.checks import (
    clocks,
    durability,
    engine,
    extensions,
    keys,
    large_objects,
    locale,
    network,
    privileges,
    sequences,
    servers,
    sessions,
    space,
    sql_versions,
    structure,
    table_kinds,
    target_rows,
    transactions,
    triggers,
    types,
)
from londiste.monitor.doctor.situation import Situation
from londiste.monitor.queues.model import Finding


class DoctorCheck(Protocol):
    """A module of this package.

    FINDINGS -- id of each finding, with what it means.
    """

    @property
    def FINDINGS(self) -> Mapping[str, str]: ...  # noqa: N802 (a constant of the module)

    def check(self, pair: Situation, /) -> Iterator[Finding]: ...


ALL: tuple[DoctorCheck, ...] = (
    servers,
    privileges,
    sql_versions,
    locale,
    clocks,
    network,
    sessions,
    durability,
    transactions,
    space,
    table_kinds,
    keys,
    structure,
    types,
    triggers,
    target_rows,
    sequences,
    large_objects,
    extensions,
    engine,
)
