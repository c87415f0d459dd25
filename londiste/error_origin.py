"""Where an error of the server comes from: the server itself, Londiste's SQL, or code of a table.

Code of a table (triggers, checks, defaults, domains) can raise any SQLSTATE, with any hint.  So an
SQLSTATE alone does not show that the server shuts down, and a hint may be that of the owner of a
table and not one of the server.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from londiste.wording import first_line, identifier

if TYPE_CHECKING:
    import psycopg

#: Line of the context while a statement runs as the owner of a table; each has its own function.
_AS_OWNER = "londiste_apply.write_as_"
#: Our function that lets the worker act as an owner.
_OWNER_FUNCTION = "londiste._owner_function("
#: Functions of the server that raise for RAISE and ASSERT of PL/pgSQL, and for PL/Python.
_RAISING = {"exec_stmt_raise", "exec_stmt_assert", "PLy_output", "PLy_elog_impl"}
#: The setting that makes triggers silent.
REPLICA_ROLE = "session_replication_role"
#: Attribute of an error: the user of its session.
_USER = "londiste_user"
#: The same: the owner of our function that has failed; the table of which another role is needed.
_ACTING, _TABLE = "londiste_acting", "londiste_table"
#: Our statement that makes or removes such a function: a statement of no owner.
_MAKES_IT = re.compile(
    r"(?:(?:alter|create|on) function|drop function if exists) londiste_apply\.write_as_"
)
_OURS = re.compile(r'(?a)^[^"]*\b(pgq|pgq_\w+|londiste)\.\w+\(')
_OURS_TO_APPLY = re.compile(r'(?a)^[^"]*\blondiste_apply\.\w+\(')


def in_owner_code(error: psycopg.Error) -> bool:
    """Pure: whether the error comes from a statement that runs as the owner of a table.

    The server adds that line to the context; code of the owner cannot remove it.
    """
    return _AS_OWNER in _MAKES_IT.sub("", error.diag.context or "")


def in_own_function(line: str) -> bool:
    """Pure: whether a line of the context is about a function of Londiste, in any language."""
    return bool(_OURS.match(line) or _OURS_TO_APPLY.match(line))


def raised_by_code(error: psycopg.Error) -> bool:
    """Pure: whether code of the database raised the error, and neither the server nor Londiste.

    A server that ends a session does so with FATAL, without a context.  With ERROR, classes 08 and
    57P are those of another server which code has called, or those of a RAISE; class 38 is that of
    other languages, as PL/Perl.
    """
    diag = error.diag
    context = diag.context or ""
    if diag.severity_nonlocalized != "ERROR" or not context or _OURS.match(context.split("\n")[0]):
        return False
    state = error.sqlstate or ""
    return diag.source_function in _RAISING or state.startswith(("08", "38", "57P"))


def server_hint(error: psycopg.Error) -> str:
    """The server's hint; '' if an owner's code may have written it, or if it drops more objects."""
    return "" if in_owner_code(error) else as_hint(error.diag.message_hint or "")


_LOCKS = re.compile(r"\bmax_(?:pred_)?locks_per_transaction\b")


def as_hint(text: str) -> str:
    """Pure: a hint of the server as ours are: no full stop, and a statement for a setting."""
    if "CASCADE" in text:
        return ""
    if name := _LOCKS.search(text):
        return (
            f"as a superuser: alter system set {name[0]} = 256, or a number larger than the present"
            " one, and restart the server"
        )
    return text.strip().removesuffix(".")


_RESTRICTED = re.compile(r"access to non-system (?:view|foreign table) \S+ is restricted")
#: They restrict it themselves, and read no view of ours.
_RESTRICTING = re.compile(r"\blondiste\._(?:count_rows|has_rows|seq_state)\(")


def restricted_hint(error: psycopg.Error) -> str:
    """The hint where the server refuses views, as Londiste's schemas have; '' for other errors."""
    message, context = error.diag.message_primary or "", error.diag.context or ""
    if not _RESTRICTED.fullmatch(message) or _RESTRICTING.search(context):
        return ""
    setting = "restrict_nonsystem_relation_kind"
    return f"as the user of this session: alter role current_user set {setting} = ''"


#: The server writes the first name without quotes, and no schema.
_NOT_OWNER = re.compile(r"must be owner of ((?:[a-z]+ )+)(\w+)")
_NO_SET = re.compile(r'must be (able to SET ROLE|member of role) "(.+)"')
_SCHEMA = re.compile(r"permission denied for schema (.+)")
#: Only their owner may create there; all others may use them.
_INSTALLED = {"pgq", "pgq_coop", "pgq_ext", "pgq_node", "londiste"}
_POLICY = re.compile(
    r"(?:query would be affected by|new row violates) row-level security policy(?: .*)? for table"
    r' "(\w+)"'
)
#: Only names that need no quotes: the context contains text of owners, too.
_FUNCTION = re.compile(r"^PL/pgSQL function ([\w.]+\([\w ,.\[\]]*\)) line \d+ at ", re.MULTILINE)
_UNQUALIFIED = re.compile(
    r'(?:relation|type) "\w+" does not exist|function \w+\(.*\) does not exist'
)


def remember_user(error: psycopg.Error, user: str) -> None:
    """Keeps the user whose session has failed: an error of the driver does not know it."""
    vars(error)[_USER] = user


def functions(error: psycopg.Error) -> list[str]:
    """Pure: the functions in which the server has missed a right, innermost first.

    None where a function raises the error: it is about the user of the session.
    """
    raised = error.diag.source_function in _RAISING
    return [] if raised else _FUNCTION.findall(error.diag.context or "")


def unowned(error: psycopg.Error) -> str:
    """Pure: the name, without a schema, of the table whose owner the statement needs; or ''."""
    found = _NOT_OWNER.fullmatch(error.diag.message_primary or "")
    return found[2] if found and found[1] in ("table ", "relation ") else ""


def remember_acting(error: psycopg.Error, role: str | None, table: str, owner: str) -> None:
    """Keeps whose rights were missing.

    role -- the owner of our function, with whose rights it has run; None: the user had to have
        them.
    table -- that of ``unowned`` with its schema; '' if unknown.  owner -- its owner.
    """
    if role is not None:
        vars(error)[_USER] = vars(error)[_ACTING] = role
    if table:
        vars(error)[_TABLE] = (table, owner)


def grantee(error: psycopg.Error, otherwise: str = "the user") -> str:
    """The user to whom a right must be granted, for SQL; ``otherwise`` where nobody knows."""
    user = vars(error).get(_USER)
    return identifier(user) if user else otherwise


def innermost_function(error: psycopg.Error) -> str:
    """Pure: the function in which the error occurred, with its arguments; '' if that is unknown."""
    found = _FUNCTION.search(error.diag.context or "")
    return found[1] if found else ""


def unqualified_hint(error: psycopg.Error) -> str:
    """Pure: the hint where a function does not find what it names without a schema; '' for others.

    The sessions of Londiste, and those of the owners of tables, find such names in pg_catalog only.
    """
    name = innermost_function(error)
    message = error.diag.message_primary or ""
    if not name or name.startswith(("pgq.", "pgq_", "londiste.", "londiste_")):
        return ""
    if raised_by_code(error) or not _UNQUALIFIED.fullmatch(message):
        return ""
    return (
        f"if {name} means an existing object: alter function {name} set search_path = …, with its"
        " schema, because the function is called with search_path = pg_catalog"
    )


def forced_hint(error: psycopg.Error, dest: str = "") -> str:
    """Pure: the hint where row security is forced on the owner of a table; '' for others.

    For an error in a statement of the owner.  dest -- the table that is written, quoted.
    """
    found = _POLICY.fullmatch(error.diag.message_primary or "")
    if found is None or raised_by_code(error):
        return ""
    # The server writes no schema.
    table = dest if dest.endswith(f'."{found[1]}"') else found[1]
    return (
        f"as an administrator: alter table {table} no force row level security, or give its"
        " owner: alter role … bypassrls"
    )


def rights_hint(error: psycopg.Error, written: str = "") -> str:
    """Pure: the hint for an error with SQLSTATE 42501.

    written -- the table that is written, quoted; '' if unknown.
    """
    message, user = error.diag.message_primary or first_line(str(error)), grantee(error)
    if (name := message.removeprefix("permission denied for database ")) != message:
        return f"as an administrator: grant create on database {identifier(name)} to {user}"
    if REPLICA_ROLE in message:
        return (
            f"as an administrator: grant set on parameter {REPLICA_ROLE} to {user};"
            " before PostgreSQL 15: londiste doctor prints what is missing"
        )
    # It names the function or table, but not its schema: it may be one of the user.
    if hint := _without_our_roles(error, message, user, written):
        return hint
    if _ACTING in vars(error):
        return (
            f"as an administrator: grant the missing privilege to {user}, with whose rights the"
            " functions of Londiste run"
        )
    return (
        f"grant the missing privilege; for what Londiste has installed: grant londiste_writer to"
        f" {user}, if it is that of commands and daemons (pgq_admin if only queues are installed),"
        " pgq_writer of a producer, or of a consumer with its position or marks in this database,"
        " or pgq_reader of any other consumer; for a member of such a role that"
        f" does not inherit its rights: grant londiste_writer to {user} with inherit true; before"
        f" PostgreSQL 16: alter role {user} inherit"
    )


def _owner_hint(what: str, user: str) -> str:
    return (
        f"as an administrator: alter {what} owner to {user}; or make {user} a member of the role"
        " that owns it"
    )


def _without_our_roles(error: psycopg.Error, message: str, user: str, written: str) -> str:
    """The hint for a right that no role of Londiste gives; '' for others."""
    if raised_by_code(error):
        return ""
    table = message.removeprefix("permission denied for table ")
    if table != message and written.endswith(f'."{table}"'):
        return _owner_hint(f"table {written}", user)
    if (found := _NOT_OWNER.fullmatch(message)) and _TABLE in vars(error):
        table, owner = vars(error)[_TABLE]
        return (
            f"as an administrator: grant {identifier(owner)} to {user}; or alter table {table}"
            f" owner to {user}"
        )
    if found:
        return _owner_hint(found[1].replace("relation", "table") + found[2], user)
    if (found := _NO_SET.fullmatch(message)) and _OWNER_FUNCTION in (error.diag.context or ""):
        more = " with set true" if "SET" in found[1] else ""
        return (
            f"as an administrator: grant {identifier(found[2])} to {user}{more}; the worker writes"
            " tables of others as their owners"
        )
    if found := _SCHEMA.fullmatch(message):
        schema = found[1]
        if schema in _INSTALLED:
            return f"run it as the owner of schema {schema}, who has installed Londiste"
        if schema == "londiste_apply":
            # A grant would open it: only the role that writes as the owners may use it.
            return (
                f"as an administrator: drop schema {schema} cascade; the worker creates it again as"
                f" {user}, who needs CREATE on the database"
            )
        if schema != "londiste_capture":
            return (
                f"as an administrator: grant usage on schema {identifier(schema)} to {user}; to"
                f" create tables or indexes there: grant create on schema {identifier(schema)} to"
                f" {user}"
            )
    if found := _POLICY.fullmatch(message):
        table = found[1]
        return (
            f"as an administrator: alter table {table} owner to {user}, or alter role"
            f" {grantee(error, '…')} bypassrls; where the owner is {user}: alter table {table} no"
            " force row level security"
        )
    return ""
