"""Checks before a replication is set up: the one place that calls them for ``replicate``."""

from __future__ import annotations

from collections.abc import Sequence

from londiste.cli import output
from londiste.db.names import TableName
from londiste.db.session_role import replica_grants
from londiste.errors import StateError
from londiste.migrate.checks import refusals
from londiste.monitor.doctor.checks.triggers import CODE
from londiste.monitor.doctor.examine import examine
from londiste.monitor.queues.model import Finding, Severity
from londiste.orchestration.connections import Connections
from londiste.replicate.databases import Replication
from londiste.replication.patterns import escaped


def preflight(
    sites: Connections,
    replication: Replication,
    chosen: Sequence[TableName],
    *,
    allow_code: bool = False,
) -> list[Finding]:
    """Findings about the source, the targets and the chosen tables, the worst first.

    allow_code -- created tables may run code of the source.
    """
    source = sites.at(replication.source.dsn)
    user, version = source.info.user, source.info.server_version
    found: dict[str, Finding] = {}
    if not replication.root_worker:
        one = _no_root_worker(user, version)
        found[one.what] = one
    names = [escaped(name) for name in chosen]
    for target in replication.targets:
        for one in examine(
            replication.source.dsn,
            target.dsn,
            names,
            engine=replication.settings.engine,
            whole_rows=True,
        ):
            if one.severity is not Severity.OK and not (allow_code and one.kind == CODE):
                found.setdefault(one.what, one)
    return sorted(found.values(), key=lambda one: -one.severity)


def _no_root_worker(user: str, version: int) -> Finding:
    return Finding(
        Severity.WARNING,
        "replica",
        f"{user} may not set session_replication_role in the source database",
        "without a worker of the root only the ticker publishes values of sequences, every two"
        " minutes",
        f"as an administrator: {'; '.join(replica_grants(user, version))}",
        "",
    )


def require(found: Sequence[Finding]) -> None:
    """Prints the warnings.  Raises StateError for what would stop replication."""
    stopping = refusals(found)
    for one in found:
        if one not in stopping[:1]:
            output.warning(f"{one.what}: {one.why}; {one.do}")
    if stopping:
        raise StateError(
            f"replication cannot start: {stopping[0].what}",
            detail=f"{stopping[0].why}; nothing was changed",
            hint=stopping[0].do,
        )
