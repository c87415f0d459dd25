"""Outages, made for real and waited for: what each means of monitoring says, and when.

``LONDISTE_OUTAGES=docs/reference/outages.md pytest …`` (``make outages``) writes the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.cluster import SETTINGS
from tests.scenarios.monitor.conftest import Watched, watch
from tests.scenarios.monitor.observers import SOURCES, Observers
from tests.scenarios.monitor.outages import OUTAGES
from tests.scenarios.monitor.rare_outages import RARE
from tests.support.http.receiver import receiver

pytest.importorskip("starlette", reason="needs the extra web")

ALL = {**OUTAGES, **RARE}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def patient(
    own_servers: Callable[..., object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """A cascade whose servers are its own, and whose limits of seconds are waited for."""
    settings = {**SETTINGS, "autovacuum_freeze_max_age": "100000", "max_connections": "30"}
    root = own_servers("source", settings=settings)
    leaf = own_servers("target", settings=settings)
    directory = tmp_path_factory.mktemp("patient")
    yield from watch(directory, root, leaf, patient=True)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def observers(patient: Watched, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observers]:
    with receiver() as hook:
        found = Observers(patient, hook, tmp_path_factory.mktemp("observers"))
        found.start()
        yield found


@pytest.mark.parametrize("name", ALL)
def test_all_means_of_monitoring_report_an_outage(
    patient: Watched, observers: Observers, name: str
) -> None:
    outage = ALL[name]
    failure = None
    with outage.run(patient):
        try:
            found = observers.observe(outage)
        except AssertionError as error:
            # The outage ends first: the other tests use the same cascade.
            failure = error
    if name.startswith("notifier"):
        observers.start_notifier()
    try:
        patient.line.wait(observers.healthy, f"health after {name}", 120)
    except AssertionError as error:
        raise (failure or AssertionError(f"{error}\n{observers.now(outage)}")) from None
    if failure is not None:
        raise failure
    cells = [
        "cannot" if one in outage.silent else f"{found[one][1]}, {found[one][0]:.0f} s"
        for one in SOURCES[1:]
    ]
    shown = f"`{found['status'][1]}`, {found['status'][0]:.0f} s"
    moved = f" (limit moved on by {outage.moved})" if outage.moved else ""
    if page := os.environ.get("LONDISTE_OUTAGES"):
        write(Path(page), name, f"| {words(name)}{moved} | {shown} | {' | '.join(cells)} |")


#: Around the rows on the page.
BEGIN, END = "<!-- rows: make outages -->", "<!-- end of the rows -->"


def words(name: str) -> str:
    """The name of an outage on the page."""
    return name.replace("_", " ")


def write(page: Path, name: str, row: str) -> None:
    """Replaces the row of an outage in the table of the page."""
    text = page.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    rows = {}
    for line in text.partition(BEGIN)[2].partition(END)[0].splitlines():
        rows[line.strip("| ").partition(" |")[0].partition(" (")[0]] = line
    rows[words(name)] = row
    head = "| outage | `status` | " + " | ".join(f"`{one}`" for one in SOURCES[1:]) + " |"
    known = [rows[words(one)] for one in ALL if words(one) in rows]
    lines = [BEGIN, "", head, "|---" * (len(SOURCES) + 1) + "|", *known, "", END]
    page.write_text(before + "\n".join(lines) + after, encoding="utf-8")
