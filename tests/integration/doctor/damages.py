"""One defect each of a pair of databases, the finding that names it, and the remedy.

In statements {db} is the database that they run in, {user} the role that doctor connects as.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Both databases have it; the source has rows as well.
STRUCTURE = """
    create type mood as enum ('sad', 'ok', 'happy');
    create table item (
        id serial primary key, name text not null, price numeric(10,2), mood mood);
    create table note (
        id bigint generated always as identity primary key,
        body text,
        size int generated always as (pg_catalog.length(body)) stored);
"""
ROWS = """
    insert into item (name, mood) values ('a', 'sad'), ('b', 'happy');
    insert into note (body) values ('x');
"""

_FUNCTION = (
    "create function f() returns trigger language plpgsql as 'begin return new; end';"
    " create trigger t before insert on item for each row execute function f();"
)
_FOREIGN = (
    "create foreign data wrapper w; create server s foreign data wrapper w;"
    " create foreign table far (id int) server s"
)
_TYPE = (
    "create type odd;"
    " create function odd_in(cstring) returns odd language internal immutable strict as 'int4in';"
    " create function odd_out(odd) returns cstring language internal immutable strict"
    " as 'int4out';"
    " create type odd (input = odd_in, output = odd_out, like = int4);"
    " create table odds (id int primary key, o odd)"
)
_CODE = (
    "create function run(text) returns bool language plpgsql as 'begin execute $1; return true;"
    " end'; create table coded (id int primary key, v text check (run(v)))"
)
_EXTENSION = "create schema lib; create extension vector schema lib"


@dataclass(frozen=True)
class Damage:
    """A defect.

    kind -- id of its finding.
    source, target -- statements that make it.
    role -- doctor connects as an ordinary role; lacks -- a grant that it does not get.
    session -- another role has a session in the source.
    create -- options of ``create database`` for the target.
    remedy -- what an administrator makes of a remedy that is no statement: side and statements.
    level -- severity of the finding.
    """

    kind: str
    source: str = ""
    target: str = ""
    lacks: str = ""
    role: bool = False
    session: bool = False
    create: str = ""
    remedy: tuple[str, str] | None = None
    level: str = "critical"


WARNING, OK = "warning", "ok"

DAMAGES: dict[str, Damage] = {
    # -- servers and sessions ----------------------------------------------------------------
    "source read only": Damage(
        "read-only", source="alter database {db} set default_transaction_read_only = on"
    ),
    "target read only": Damage(
        "read-only", target="alter database {db} set default_transaction_read_only = on"
    ),
    "limit of the database": Damage(
        "connections", source="alter database {db} connection limit 3", role=True
    ),
    "limit of the role": Damage(
        "connections", target="alter role {user} connection limit 6", role=True, level=WARNING
    ),
    "idle sessions end": Damage(
        "statement-timeout",
        source="alter database {db} set idle_session_timeout = '10min'",
        level=OK,
    ),
    "statements end": Damage(
        "statement-timeout", target="alter database {db} set statement_timeout = '5s'", level=OK
    ),
    "captures do not fire": Damage(
        "replication-role",
        source="alter database {db} set session_replication_role = 'REPLICA'",
    ),
    "captures of one role do not fire": Damage(
        "replication-role",
        source="alter role {user} in database {db} set session_replication_role = local",
        role=True,
    ),
    "commits without flush": Damage(
        "synchronous-commit",
        source="alter database {db} set synchronous_commit = off",
        level=WARNING,
    ),
    "commits of one role without flush": Damage(
        "synchronous-commit",
        source="alter role {user} in database {db} set synchronous_commit = off",
        role=True,
        level=WARNING,
    ),
    # -- rights ------------------------------------------------------------------------------
    "no schemas": Damage("create", role=True, lacks="create on database"),
    "no tables in public": Damage(
        "create",
        source="create table fresh (id int primary key); alter table fresh owner to doctor_owner",
        role=True,
        lacks="create on schema public",
    ),
    "no replica role": Damage("replica", role=True, lacks="replica"),
    "table of another role": Damage(
        "owner",
        source="create table secret (id int primary key); alter table secret owner to doctor_other",
        role=True,
    ),
    "table of a superuser": Damage(
        "owner",
        source="create table secret (id int primary key); alter table secret owner to postgres",
        role=True,
    ),
    "hidden sequence": Damage("sequence", source="create sequence hidden", role=True),
    "forced policies": Damage(
        "policies",
        source="alter table item enable row level security, force row level security",
        role=True,
    ),
    "hidden sessions": Damage(
        "unseen", role=True, lacks="pg_read_all_stats", session=True, level=WARNING
    ),
    "hidden rows of the target": Damage(
        "unreadable",
        target="revoke select on item from doctor_owner",
        role=True,
        level=WARNING,
    ),
    # -- both as a pair ----------------------------------------------------------------------
    "narrow encoding": Damage("encoding", create="encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'"),
    "other collation": Damage(
        "collation", create="lc_collate 'C.utf8' lc_ctype 'C.utf8'", level=WARNING
    ),
    "other time zone": Damage(
        "time-zone", target="alter database {db} set timezone = 'Asia/Tokyo'", level=WARNING
    ),
    # -- tables ------------------------------------------------------------------------------
    "no key": Damage("key", source="create table log (line text)", level=WARNING),
    "no key but a unique constraint": Damage(
        "key", source="create table log (line text not null unique)", level=WARNING
    ),
    "no key but a unique index": Damage(
        "key",
        source="create table log (line text not null); create unique index i on log (line)",
        level=WARNING,
    ),
    "deferrable key": Damage(
        "deferrable",
        source="create table late (id int, n int, primary key (n, id) deferrable)",
        level=WARNING,
    ),
    "unlogged": Damage(
        "unlogged", source="create unlogged table fast (id int primary key)", level=WARNING
    ),
    "no columns": Damage("columns", source="create table bare ()", level=WARNING),
    "dot in a schema": Damage(
        "name", source='create schema "a.b"; create table "a.b".t (id int primary key)'
    ),
    "foreign table": Damage(
        "foreign",
        source=_FOREIGN,
        remedy=("source", "drop foreign table far"),
        level=WARNING,
    ),
    "code of the source": Damage("code", source=_CODE, remedy=("target", _CODE)),
    "type in C": Damage("type", source=_TYPE, remedy=("target", _TYPE)),
    "large objects": Damage(
        "large-objects",
        source="select lo_create(7)",
        remedy=("source", "select lo_unlink(7)"),
        level=WARNING,
    ),
    "extension": Damage("extension-missing", source=_EXTENSION, level=WARNING),
    "extension in another schema": Damage(
        "extension-schema", source=_EXTENSION, target="create extension vector", level=WARNING
    ),
    "collation": Damage(
        "object",
        source="create schema lib; create collation lib.plain (provider = libc, locale = 'C');"
        " create table lib.words (w text collate lib.plain primary key)",
    ),
    # -- tables that are there already -------------------------------------------------------
    "rows": Damage("rows", target="insert into item (name) values ('x')"),
    "missing column": Damage("structure", target="alter table item drop column price"),
    "mandatory column": Damage("structure", target="alter table item add column c int not null"),
    "further column": Damage(
        "structure", target="alter table item add column c int", level=WARNING
    ),
    "narrow type": Damage("structure", target="alter table item alter name type varchar(3)"),
    "generated there": Damage(
        "structure",
        target="alter table item drop column price; alter table item add column price"
        " numeric(10,2) generated always as (1) stored",
    ),
    "no identity there": Damage(
        "structure", target="alter table note alter column id drop identity", level=WARNING
    ),
    "no key there": Damage("structure", target="alter table item drop constraint item_pkey"),
    "unlogged there": Damage("structure", target="alter table item set unlogged"),
    "domain of another role": Damage(
        "type-owner",
        source="create domain word as text; create table words (id int primary key, w word)",
        target="create domain word as text; create table words (id int primary key, w word);"
        " alter domain word owner to doctor_other",
        level=WARNING,
    ),
    "label of an enum": Damage(
        "enum",
        source="alter type mood add value 'so so' after 'sad'; alter type mood add value"
        " '''' before 'sad'",
    ),
    "trigger fires always": Damage(
        "always", target=_FUNCTION + "alter table item enable always trigger t", level=WARNING
    ),
    "subscription of PostgreSQL": Damage(
        "native-subscription",
        # As its first synchronisation leaves the catalog.
        source="create subscription doctor_sub connection 'dbname=x' publication x with"
        " (connect = false, enabled = false, slot_name = none); insert into pg_subscription_rel"
        " select oid, 'item'::regclass, 'r' from pg_subscription where subname = 'doctor_sub'",
        remedy=("source", "drop subscription doctor_sub"),
        level=WARNING,
    ),
    "rule applies always": Damage(
        "rule",
        target="create rule r as on insert to item do also notify x;"
        " alter table item enable always rule r",
        level=WARNING,
    ),
    "other sequence": Damage(
        "sequence-differs", target="alter sequence item_id_seq increment by 7", level=WARNING
    ),
    # -- SQL of Londiste ---------------------------------------------------------------------
    "foreign schema": Damage(
        "londiste3",
        source="create schema pgq; create table pgq.queue (id int)",
        remedy=("source", "drop schema pgq cascade"),
    ),
}
