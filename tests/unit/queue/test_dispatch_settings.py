"""The settings of the dispatcher that need no database to be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.settings import load
from londiste.tools.dispatch.rules import rules
from londiste.tools.dispatch.settings import DispatchBase, DispatchSettings
from tests.fixtures.process import ROOT


@pytest.mark.parametrize("address", ["hdfs://host/files", "s3:/files"])
def test_files_go_into_a_directory_and_an_address_is_refused_by_its_own_name(address: str) -> None:
    with pytest.raises(BadOption, match=r"target_path.*not a directory"):
        load(DispatchBase, None, {"db": "dbname=x", "queue_name": "q", "target_path": address})


def test_the_sections_of_the_page_are_dispatched_although_other_tables_are_ignored(
    tmp_path: Path,
) -> None:
    blocks = (ROOT / "docs/howto/dispatch.md").read_text().split("```ini\n")[1:]
    general, sections = (block.partition("```")[0] for block in blocks[:2])
    config = tmp_path / "to_archive.ini"
    config.write_text(f"{general}table_mode = ignore\n{sections}")
    config.chmod(0o600)
    settings = load(DispatchSettings, config)
    found = rules(settings.handler, settings.options, settings.tables)
    assert not found.takes_all
    names = ["orders", "payment", "session", "other"]
    orders, payment, session, other = (found.of(TableName("public", name)) for name in names)
    # With the default of table_mode, and the other options of the section for all tables.
    assert orders.table == "archive.orders"
    assert orders.work is not None and orders.work.parts is not None
    assert orders.work.part_field == "created"
    assert payment.work is not None and payment.work.parts is None
    assert session.work is None and other.work is None
    assert [table.name for table in found.chosen((), "")] == ["orders", "payment"]


@pytest.mark.parametrize(
    ("sections", "names", "told", "hint"),
    [
        ({}, ["public.orders"], "table_filter names public.orders", "[table public.orders]"),
        ({"public.a": {}}, ["public.a", "public.b"], "table_filter names public.b", "public.b]"),
        ({}, [], "no table is dispatched", "[table public.orders]"),
        ({"public.a": {"table_mode": "ignore"}}, [], "no table is dispatched", "remove table_mode"),
    ],
)
def test_settings_that_leave_out_what_they_name_or_all_tables_are_refused(
    sections: dict[str, dict[str, str]], names: list[str], told: str, hint: str
) -> None:
    with pytest.raises(BadOption, match=told) as refused:
        rules("dispatch", {"table_mode": "ignore"}, sections).require_sections(names)
    assert hint in refused.value.hint


def test_settings_that_leave_some_tables_to_be_dispatched_are_accepted() -> None:
    some = {"public.a": {"table_mode": "direct"}, "public.b": {"table_mode": "ignore"}}
    rules("dispatch", {"table_mode": "ignore"}, some).require_sections(["public.a", "public.b"])
    rules("dispatch", {"table_mode": "direct"}, {}).require_sections(["public.c"])
