"""Checks of the SQL of Londiste in both databases: outdated, or of another origin."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from londiste.monitor.doctor.situation import Situation, critical, warning
from londiste.monitor.queues.model import Finding

FINDINGS = {
    "sql-version": "SQL of an earlier release of Londiste",
    "londiste3": "schemas of Londiste 3 or PgQ",
    "sql-refused": "schemas in which londiste install refuses to work",
}


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about the schemas pgq, pgq_node, londiste, …"""
    for side, facts in pair.sides:
        state, db = facts.more.sql, shlex.quote(facts.more.dsn)
        if state.londiste3:
            names = ", ".join(state.londiste3)
            if state.extension:
                yield critical(
                    "londiste3",
                    f"the {side} database has extensions of Londiste 3: {names}",
                    "Londiste 4 replaces them; queues, consumers and triggers stay",
                    side=side,
                    object=names,
                    command=f"londiste install --adopt --db {db}",
                )
            else:
                yield critical(
                    "londiste3",
                    f"schemas {names} of the {side} database were not created by londiste install",
                    "schemas of the same name would be needed for the queue",
                    "use another database, or rename the schemas; docs/howto/coming-from-pgq.md"
                    " adopts queues of PgQ",
                    side=side,
                    object=names,
                )
        elif state.refused is not None:
            what, hint = state.refused
            yield critical(
                "sql-refused",
                f"the SQL of the {side} database cannot be installed or upgraded: {what}",
                "this program needs SQL of its own release",
                hint,
                side=side,
            )
        elif state.outdated and not pair.whole:
            # A migration upgrades it.
            names = ", ".join(state.outdated)
            yield warning(
                "sql-version",
                f"the SQL of {names} in the {side} database is of another release",
                "daemons of this release refuse an older schema",
                side=side,
                object=names,
                command=f"londiste install --db {db}",
            )
