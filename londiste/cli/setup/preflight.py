"""Checks before a replication is set up: the one place that calls them for ``replicate``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from londiste.cli import output
from londiste.cli.errors import tell
from londiste.db.names import TableName, argument
from londiste.db.session_role import replica_grants
from londiste.errors import StateError
from londiste.monitor.doctor.examine import look
from londiste.monitor.queues.model import Finding, Severity
from londiste.orchestration.connections import Connections
from londiste.replicate import setup
from londiste.replicate.databases import Replication
from londiste.replicate.verdict import Verdict, judge, of_findings, together
from londiste.replication.patterns import escaped


def preflight(
    sites: Connections,
    replications: Sequence[Replication],
    chosen: Sequence[TableName],
    *,
    allow_code: bool = False,
) -> Verdict:
    """What follows from the findings about source, targets and chosen tables.  Changes nothing.

    replications -- the queues of these databases.
    allow_code -- created tables may run code of the source.
    """
    first = replications[0]
    source = sites.at(first.source.dsn)
    user, version = source.info.user, source.info.server_version
    root = [] if first.root_worker else [_no_root_worker(user, version)]
    verdicts = [Verdict(tuple(root))]
    names = [escaped(name) for name in chosen]
    for target in first.targets:
        failed, pair = look(
            first.source.dsn,
            target.dsn,
            names,
            engine=first.settings.engine,
            whole_rows=True,
        )
        verdicts.append(of_findings(failed))
        if pair is not None:
            there = setup.replicated(sites.at(target.dsn), [one.queue for one in replications])
            verdicts.append(
                judge(replace(pair, code=() if allow_code else pair.code), chosen, there)
            )
    return together(verdicts)


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


def require(
    verdict: Verdict, taken: Mapping[TableName, str] = MappingProxyType({})
) -> Collection[TableName]:
    """Prints the warnings, and what would stop replication as errors; the tables not added.

    So one call shows all that must be mended.
    taken -- tables that are left out for another reason.

    Raises StateError, the first of the errors.
    """
    for one in verdict.warnings:
        output.warning(f"{one.what}: {one.why}; {one.do}")
    refused = [_refusal(one) for one in verdict.refusals]
    for error in refused[1:]:
        tell(error)
    if refused:
        raise refused[0]
    reasons = {name: f"{one.what}; {one.do}" for name, one in verdict.skipped.items()}
    skipped = {**reasons, **taken}
    for name, why in skipped.items():
        output.warning(
            f"table {name} is not added: {why}; or exclude it: --exclude {argument(name)}"
        )
    return skipped.keys()


def _refusal(one: Finding) -> StateError:
    return StateError(
        f"replication cannot start: {one.what}",
        detail=f"{one.why}; nothing was changed",
        hint=one.do,
    )
