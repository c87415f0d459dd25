"""Every finding has an entry in the documentation, and its address leads there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import londiste
from londiste.daemon.loop import describe
from londiste.errors import LondisteError
from londiste.monitor import catalog, verdict
from londiste.monitor.doctor.checks import ALL
from londiste.monitor.nodes import rules
from londiste.monitor.nodes.rules import NodeFacts
from londiste.monitor.queues.model import Finding, Severity
from londiste.monitor.status import NodeStatus, Status
from londiste.wording import hint_in

PACKAGE = Path(londiste.__file__).parent
DOCS = PACKAGE.parent / "docs"
#: Modules that make findings, and how an id stands there.
SOURCES = (
    "monitor/verdict.py",
    "monitor/alarms.py",
    "monitor/partitions.py",
    "monitor/exposure.py",
    "monitor/lock_waits.py",
    "monitor/merging.py",
    "monitor/schema_owners.py",
    "monitor/nodes/own_location.py",
    "monitor/nodes/rules.py",
    "monitor/nodes/doubts.py",
    "monitor/captures/rules.py",
    "monitor/queues/rotation.py",
    "monitor/queues/rules.py",
    "migrate/drift.py",
    "migrate/checks.py",
    "migrate/database_settings.py",
)
_ID = r"""(?x)
    (?:Severity\.[A-Z]+|severity|_daemon\([^)]*\)),\s+"([a-z-]+)"
    | (?:critical|warning|notice)\(\s+"([a-z-]+)"
    | case\s"([a-z-]+)":
    | "([a-z-]+)"\sif\snever\selse
    | else\s"([a-z-]+)",?\n
    | ^\s+"([a-z]+)":\sSeverity
"""
_OF_DOCTOR = {kind for one in ALL for kind in one.FINDINGS}
_IN_CATALOG = {kind for group in catalog.GROUPS.values() for kind in group}


def used() -> set[str]:
    found: set[str] = set()
    for name in SOURCES:
        text = (PACKAGE / name).read_text(encoding="utf-8")
        for groups in re.findall(_ID, text, re.MULTILINE):
            found |= set(filter(None, groups))
    for name in ("table_doubts", "unreplicated_sequences", "sequence_doubts"):
        doubts = (PACKAGE.parent / f"sql/queries/{name}.sql").read_text(encoding="utf-8")
        found |= set(re.findall(r"(?m)^(?:union all )?select '([a-z-]+)'", doubts))
    return found


def test_every_id_in_the_code_is_in_the_catalog() -> None:
    found = used()
    assert len(found) > 55
    assert found - _IN_CATALOG - _OF_DOCTOR == set()
    # Those of daemons and of sources of errors come from other places.
    daemons = {"ticker", "worker", "notify", "audit", "read-from"}
    assert _IN_CATALOG - found - daemons - {"copy", "error"} == set()


@pytest.mark.parametrize("kind", sorted(_IN_CATALOG | _OF_DOCTOR))
def test_an_address_leads_to_a_section(kind: str) -> None:
    for doctor in (False, True):
        address = catalog.page(kind, doctor=doctor)
        assert address.startswith(f"{catalog.BASE}/reference/")
        page, _, anchor = address.removeprefix(f"{catalog.BASE}/").partition("#")
        assert f"\n### `{anchor}`\n" in (DOCS / page).read_text(encoding="utf-8")


def test_a_finding_is_shown_with_its_page() -> None:
    mine = Finding(Severity.CRITICAL, "unreachable", "x", "y", "z")
    of_doctor = Finding(Severity.CRITICAL, "unreachable", "x", "y", "z", side="source")
    assert [one.page.rpartition("/")[2] for one in catalog.shown([mine, of_doctor])] == [
        "findings.md#unreachable",
        "doctor.md#unreachable",
    ]


def test_an_alert_has_the_address_of_its_section() -> None:
    rules = (PACKAGE / "metrics/share/rules.yml").read_text(encoding="utf-8")
    page = (DOCS / "reference/findings.md").read_text(encoding="utf-8")
    names = re.findall(r"alert: (\w+)", rules)
    urls = re.findall(r'runbook_url: "([^"]+)"', rules)
    assert len(names) == len(urls)
    for name, url in zip(names, urls, strict=True):
        assert f"\n### `{name}`\n" in page
        anchor = url.removeprefix(f"{catalog.BASE}/reference/findings.md#")
        assert anchor in (name.lower(), "{{ $labels.kind }}")


def test_a_hint_in_the_message_of_a_stored_error_is_no_remedy() -> None:
    foreign = LondisteError("no; hint: drop it", detail="of a trigger; hint: drop all")
    assert hint_in(describe(foreign)) == ""
    foreign.hint = "londiste events show"
    assert hint_in(describe(foreign)) == "londiste events show"


def test_the_remedy_of_a_stored_error_is_its_hint() -> None:
    text = "no tick 7; detail: it was restored; hint: londiste -c FILE worker --rewind"
    node = NodeStatus("leaf", "leaf", errors=(("w", text),))
    found = verdict.of_node(node, Status("q", "leaf", (node,)), verdict.Allowed())
    (of_status,) = (one for one in found if one.kind == "error")
    facts = NodeFacts("leaf", "leaf", {}, {}, errors=(("w", text),))
    (of_check,) = rules.findings(facts, None, "q")
    assert of_status.do == "londiste -c FILE worker --rewind"
    assert of_check.do == "with the settings of leaf: londiste -c FILE worker --rewind"
