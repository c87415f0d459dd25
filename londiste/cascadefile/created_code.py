"""Code of the root that comes with tables which a plan creates; found before anything is done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from londiste.cascadefile.action import Action, Kind
from londiste.cascadefile.decide import CascadeState
from londiste.db.structure.types import BARE, WHOLE
from londiste.orchestration.connections import Connections
from londiste.replication.commands.create_table import foresee
from londiste.settings.cascade_file import CascadeFile


def with_code(
    sites: Connections, file: CascadeFile, state: CascadeState, root: str, actions: Iterable[Action]
) -> list[Action]:
    """The actions, those that create tables with the code that the file does not accept.

    root -- the database that has the tables.
    """
    section = file.tables
    if section is None or section.allow_code or section.create not in ("columns", "full"):
        return list(actions)
    full = section.create == "full"
    found = []
    for action in actions:
        if action.kind is Kind.ADD and action.role != "root":
            here = state.nodes[action.node].relations
            missing = {name: name for name in action.tables if name not in here}
            if missing:
                node = sites.at(file.nodes[action.node].db)
                parts = WHOLE if full else BARE
                code = foresee(sites.at(root), node, missing, parts, needs=full).code
                action = replace(action, code=tuple(code))
        found.append(action)
    return found
