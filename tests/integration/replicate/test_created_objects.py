"""What ``replicate`` records of created objects, and what ``--drop-tables`` makes of the record."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.endpoint import endpoint
from londiste.cascade.model import CREATED_OBJECTS, encode_attrs
from londiste.errors import StateError
from londiste.orchestration.connections import Connections
from londiste.replicate.created import DropCreated, Recorded, recorded
from tests.fixtures.cluster import Database


@dataclass(frozen=True)
class Creates:
    """A step that creates a table while another session creates one, too."""

    database: Database

    def describe(self) -> str:
        return "creates"

    def done(self, sites: Connections) -> bool:
        return False

    def run(self, sites: Connections) -> None:
        self.database.execute("create table theirs (id int)")
        sites.at(self.database.dsn).execute("create table public.ours (id int)")


def test_what_others_create_meanwhile_is_not_recorded(pgq_db: Database) -> None:
    pgq_db.execute(
        "select pgq_node.register_location('q', 'n', 'dbname=n', false);"
        " select pgq_node.create_node('q', 'root', 'n', 'w', null, null, null)"
    )
    side = endpoint("n", pgq_db.dsn, "w")
    with Connections(name="test") as sites:
        Recorded(Creates(pgq_db), side, "q").run(sites)
        assert recorded(sites.at(side.dsn), "q") == [("table", "public.ours")]
        # Whoever may change a node may write anything there.
        for text in ("no json", "1", '[["table"]]', '{"a": 1}', "[[1, 2]]"):
            nodes.set_node_attrs(sites.at(side.dsn), "q", encode_attrs({CREATED_OBJECTS: text}))
            with pytest.raises(StateError, match="cannot be read"):
                recorded(sites.at(side.dsn), "q")
        nodes.set_node_attrs(
            sites.at(side.dsn), "q", encode_attrs({CREATED_OBJECTS: json.dumps([["view", "v"]])})
        )
        assert recorded(sites.at(side.dsn), "q") == [("view", "v")]


def test_a_record_is_no_sql(database: Database) -> None:
    database.execute("create table mine (id int); create table other (id int)")
    found = (
        ("table", "public.mine"),
        ("table", "public.gone"),
        ("table", "public.mine; drop table public.other"),
        ("table", "public.mine, public.other"),
    )
    side = endpoint("n", database.dsn, "w")
    step = DropCreated(side, "q", found)
    with Connections(name="test") as sites:
        assert not step.done(sites)
        step.run(sites)
        assert step.done(sites)
    assert database.value("select to_regclass('mine')") is None
    assert database.value("select to_regclass('other')") == "other"
