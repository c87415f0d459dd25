"""Checks of what the connecting user may do: schemas, roles, triggers, replica role, all rows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from londiste.db.names import quote
from londiste.db.session_role import replica_grants
from londiste.monitor.doctor.facts import DatabaseFacts, Table
from londiste.monitor.doctor.situation import Situation, critical, warning
from londiste.monitor.queues.model import Finding
from londiste.wording import shortened

FINDINGS = {
    "roles": "group roles of the queue that are missing and cannot be created",
    "administration": "no rights of the administrators of queues",
    "create": "no right to create schemas or tables",
    "replica": "no right to set session_replication_role",
    "owner": "tables of a role whose rights the user has not",
    "table-owner": "tables that are written as their owner, whom the user cannot become",
    "policies": "rows that row-level security hides from the user",
    "internal-rights": "roles that can write internal tables of Londiste",
    "owners": "roles of the source that the target server lacks",
    "unreadable": "facts that the user may not read, or that a lock hides",
}

_ROLES = (
    "create role pgq_reader nologin",
    "create role pgq_writer nologin",
    "create role pgq_admin nologin in role pgq_reader, pgq_writer",
    "create role londiste_reader nologin in role pgq_reader",
    "create role londiste_writer nologin in role pgq_admin",
)
_GROUPS = {one.split()[2] for one in _ROLES}


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about privileges in both databases, and about roles."""
    for side, facts in pair.sides:
        yield from _user(pair, side, facts)
        for one in facts.more.excess:
            yield critical(
                "internal-rights",
                f"{side} database: {one.what}",
                one.why,
                side=side,
                object=one.role,
                admin_sql=one.statements,
            )
    yield from _owners(pair)
    yield from _writers(pair)
    yield from _policies(pair)
    if pair.target is not None:
        missing = sorted((pair.source.named_roles - pair.target.roles) - {pair.source.user})
        if missing:
            yield warning(
                "owners",
                f"the {pair.names[1]} server lacks the roles {shortened(missing)}",
                "owners and grants that name them are skipped",
                f"create them first: pg_dumpall --roles-only on the {pair.names[0]} server",
                side=pair.names[1],
                object=", ".join(missing),
                admin_sql=[f"create role {quote(name)} nologin" for name in missing],
            )


def membership(role: str, facts: DatabaseFacts) -> list[str]:
    """Pure: the statements that give the user of a database the rights of a role.

    A member without INHERIT has them only after SET ROLE.  It is a property of the user, from
    PostgreSQL 16 on of each grant.
    """
    user, member = quote(facts.user), role in facts.uninherited
    grant = f"grant {role if role in _GROUPS else quote(role)} to {user}"
    if facts.version >= 160000:
        return [grant if facts.inherits and not member else f"{grant} with inherit true"]
    statements = [] if member and not facts.inherits else [grant]
    return statements if facts.inherits else [*statements, f"alter role {user} inherit"]


def _owners(pair: Situation) -> Iterator[Finding]:
    """Tables of the source that belong to others, one finding for each owner."""
    source, user = pair.source, pair.source.user
    by_owner: dict[str, list[Table]] = {}
    for table in pair.wanted:
        # What is replicated has its triggers.
        if not table.mine and "." not in table.name.schema and not source.replicates(table):
            by_owner.setdefault(table.owner, []).append(table)
    for owner, tables in by_owner.items():
        names = [str(table.name) for table in tables]
        one = len(tables) == 1
        why = f"{user} may not create triggers on {'it' if one else 'them'}"
        statements = membership(owner, source)
        if owner in source.uninherited:
            why += f": {user} is a member of {owner}, but does not inherit its rights"
        if owner in source.powerful:
            # A member has all rights of the role.
            why += f"; a grant of {owner} would make {user} an administrator of the server"
            statements = [f"alter table {t.name.quoted} owner to {quote(user)}" for t in tables]
        yield critical(
            "owner",
            f"table {names[0]} belongs to {owner}"
            if one
            else f"{len(tables)} tables belong to {owner}: {shortened(names)}",
            why,
            f"as an administrator: {'; '.join(statements)}",
            side=pair.names[0],
            object=", ".join(names),
            admin_sql=statements,
        )


def _writers(pair: Situation) -> Iterator[Finding]:
    """Tables of the target whose owner the user is a member of, but cannot become."""
    wanted = {str(table.name) for table in pair.wanted}
    for one in () if pair.target is None else pair.target.more.table_owners:
        if one.table_name in wanted:
            yield critical(
                "table-owner",
                f"table {one.table_name} belongs to {one.owner} in the {pair.names[1]}"
                f" database, and {one.writer} may not set this role",
                "rows are written with the rights of the owner; the first change stops the worker",
                f"as an administrator: {one.remedy}",
                side=pair.names[1],
                object=one.table_name,
                admin_sql=[one.remedy],
            )


def _user(pair: Situation, side: str, facts: DatabaseFacts) -> Iterator[Finding]:
    user, database = quote(facts.user), quote(facts.more.database)
    as_group = facts.user in _GROUPS and facts.user != facts.login
    if as_group and not facts.administers and side != "provider":
        # No right is granted to a group role: each user of a queue would have it.
        yield critical(
            "administration",
            f"{facts.login} works as {facts.user} on the {side} server, a group role of the queue",
            "a setting chooses the role of its sessions, which have no other rights",
            f"as an administrator: {facts.role_reset}"
            if facts.role_reset
            else "omit the role from options of the connection string",
            side=side,
            object=facts.user,
            admin_sql=[facts.role_reset] if facts.role_reset else [],
        )
        return
    if "pgq" not in facts.installed and facts.missing_roles and not facts.makes_roles:
        names = ", ".join(facts.missing_roles)
        # Without it the next command would stop.
        grants = membership("londiste_writer", facts)
        yield critical(
            "roles",
            f"the {side} server lacks the roles {names}, and {facts.user} may not create them",
            "the queue needs these group roles, which cannot log in",
            "as an administrator of that server: " + "; ".join((*_ROLES, *grants)),
            side=side,
            object=names,
            admin_sql=[
                *(one for one in _ROLES if one.split()[2] in facts.missing_roles),
                *grants,
            ],
        )
    elif not facts.administers and (why := _administrators_only(pair, side, facts)):
        member = "pgq_admin" in facts.uninherited
        lack = "does not inherit the rights" if member else "is no member"
        grants = membership("londiste_writer", facts)
        yield critical(
            "administration",
            f"{facts.user} {lack} of pgq_admin on the {side} server",
            why,
            f"as an administrator: {'; '.join(grants)}",
            side=side,
            object=facts.user,
            admin_sql=grants,
        )
    if not facts.makes_schemas:
        yield critical(
            "create",
            f"{facts.user} may not create schemas in the {side} database",
            "the queue needs schemas, and the tables may need more",
            side=side,
            object=facts.user,
            admin_sql=[f"grant create on database {database} to {user}"],
        )
    if side == pair.names[1] and not facts.makes_in_public:
        there = {table.name for table in facts.tables}
        if any(
            table.name.schema == "public"
            and table.name not in there
            and table.replicated
            and not table.partition
            for table in pair.wanted
        ):
            yield critical(
                "create",
                f"{facts.user} may not create tables in schema public of the {side} database",
                "from PostgreSQL 15 on only the owner of the database may",
                side=side,
                object=facts.user,
                admin_sql=[f"grant create on schema public to {user}"],
            )
    if not facts.replica and (pair.whole or side == pair.names[1]):
        when = "" if side == pair.names[1] else " once it follows the new one"
        statements = _replica(facts)
        yield critical(
            "replica",
            f"{facts.user} may not set session_replication_role in the {side} database",
            f"triggers and foreign keys must not fire for replicated rows{when}",
            _replica_text(facts),
            side=side,
            object=facts.user,
            admin_sql=statements,
        )
    for unread, statements in (
        (facts.more.unreadable_sql, membership("londiste_writer", facts)),
        (facts.more.unreadable, [f"grant pg_read_all_data to {user}"]),
    ):
        if unread:
            yield warning(
                "unreadable",
                f"{facts.user} cannot read {shortened(unread)} of the {side} database",
                "the checks that depend on it were not made",
                side=side,
                object=facts.user,
                admin_sql=statements,
            )
    for one in facts.more.locked:
        if pair.wants_name(one.name):
            yield warning(
                "unreadable",
                f"table {one.name} of the {side} database is {one.why}",
                "its size, its rows and the objects that it needs were not checked",
                one.after("londiste doctor"),
                side=side,
                object=str(one.name),
            )


def _administrators_only(pair: Situation, side: str, facts: DatabaseFacts) -> str:
    """Why the user of a side has to be an administrator of queues; '' if it need not."""
    if side == "provider":
        # The owner of a worker's position there need not be one.
        return ""
    if side == pair.names[0]:
        return "only administrators of queues may write events that replication applies"
    if facts.owns_installed:
        # It calls its own functions, also those that it will install.
        return ""
    return "the SQL of Londiste there belongs to another role: only administrators may call it"


def _replica(facts: DatabaseFacts) -> list[str]:
    statements = replica_grants(facts.user, facts.version)
    if facts.version < 150000 and facts.replica_function == "refused":
        return statements[1:]
    return statements


def _replica_text(facts: DatabaseFacts) -> str:
    """The remaining statements as text, after the first colon and blank."""
    text = "; ".join(_replica(facts))
    if facts.version >= 150000:
        return f"as an administrator: {text}"
    missing = facts.replica_function == "missing"
    install = f"londiste install --db {shlex.quote(facts.more.dsn)}"
    first = f"{install}, then " if missing else ""
    return f"{first}as an administrator in that database: {text}"


def _policies(pair: Situation) -> Iterator[Finding]:
    wanted = {table.name: table for table in pair.wanted}
    there = {table.name: table for table in pair.target.tables} if pair.target else {}
    for name in {**wanted, **there} if pair.whole else wanted:
        for side, facts in pair.sides:
            mine = wanted.get(name) if facts is pair.source else there.get(name, wanted.get(name))
            if mine is None:
                continue
            if mine.forced and not facts.bypasses:
                yield _hidden(
                    side,
                    facts,
                    mine,
                    f"table {name} forces row-level security, and {facts.user} cannot bypass it"
                    f" in the {side} database",
                    f"alter table {name.quoted} no force row level security",
                )
            elif mine.hidden:
                yield _hidden(
                    side,
                    facts,
                    mine,
                    f"table {name} has row-level security, and {facts.user} is not its owner in"
                    f" the {side} database",
                    f"alter table {name.quoted} disable row level security",
                )


def _hidden(side: str, facts: DatabaseFacts, table: Table, message: str, statement: str) -> Finding:
    return critical(
        "policies",
        message,
        "rows that a policy hides cannot be copied, compared or written",
        f"while it is replicated: {statement}; or as an administrator: alter role"
        f" {quote(facts.user)} bypassrls",
        side=side,
        object=str(table.name),
        admin_sql=[f"alter role {quote(facts.user)} bypassrls"],
    )
