"""A table whose name contains ``*`` is one table: for ``replicate``, and for a plan."""

from __future__ import annotations

from londiste.cascade.commands.endpoint import endpoint
from londiste.db.names import TableName
from londiste.orchestration import steps
from londiste.orchestration.connections import Connections
from londiste.replicate.databases import ReplicateSettings, Replication
from londiste.replicate.setup import Selection, stages
from londiste.replication import sqlapi as tables
from londiste.replication.commands import remove_table
from tests.fixtures.cluster import Database


def test_a_star_in_a_name_selects_no_other_table(pgq_db: Database) -> None:
    pgq_db.execute(
        'create table "a*" (id int primary key); create table ab (id int primary key);'
        " create table ac (id int primary key);"
        " select pgq_node.register_location('q', 'n', 'dbname=n', false);"
        " select pgq_node.create_node('q', 'root', 'n', 'w', null, null, null)"
    )
    side = endpoint("n", pgq_db.dsn, "w")
    replication = Replication(ReplicateSettings(), "q", side, ())

    def listed(sites: Connections) -> list[str]:
        return [t.name.name for t in tables.get_table_list(sites.at(side.dsn), "q")]

    with Connections(name="test") as sites:
        selection = Selection(exclude=("public.ab",))
        (*_, add) = stages(replication, selection, lambda text: None)
        steps.execute(add(sites), sites)
        # The exclusion itself is a pattern that the odd name does not match.
        assert sorted(listed(sites)) == ["a*", "ac"]
        gone = [TableName("public", "a*")]
        steps.execute(remove_table.plan(sites, side.dsn, "q", gone, force=True).steps, sites)
        assert listed(sites) == ["ac"]
