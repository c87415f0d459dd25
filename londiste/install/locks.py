"""Locks of many tables: all of them before the first change, without blocking applications.

Programs write and read queues during an upgrade, and tables while their node is dropped.  They wait
behind a lock that this program waits for, and a lock that it holds while it waits for another one
could end in a deadlock, in which the server may choose the application as the victim.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from psycopg import sql

from londiste.db.connection import Connection
from londiste.db.names import TableName

#: Seconds for which an installer tries to get its locks.
PATIENCE = 60.0

# Waits for a second for one table, while it holds none.  With that one, the others are locked at
# once or all are given back: it waits for none of them later than 0.6 s after the first, so whoever
# waits for it does not find a deadlock, which is looked for after deadlock_timeout (1 s).  The one
# that was not free is the first table of the next attempt.  ONLY: the tables of events are children
# of one of these.
_TAKE = """
do $londiste$
declare
    v_tables regclass[];
    v_table regclass;
    v_first regclass;
    v_held timestamptz;
    v_path constant text := pg_catalog.current_setting('search_path');
    v_last constant timestamptz := pg_catalog.clock_timestamp() operator(pg_catalog.+) {patience};
begin
    -- Nothing below is looked up elsewhere.
    set local search_path = pg_catalog, pg_temp;
    select array_agg(c.oid::regclass order by c.relname <> 'queue', c.relname)
    into v_tables
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p')
        and (n.nspname = any ({schemas}) and c.relname !~ '^event_[0-9]'
            or {triggers} and has_table_privilege(c.oid, 'update') and exists (
                select from pg_trigger as t
                join pg_proc as p on p.oid = t.tgfoid
                join pg_namespace as f on f.oid = p.pronamespace
                where t.tgrelid = c.oid and f.nspname = any ({schemas}))
            or has_table_privilege(c.oid, 'update') and c.oid in (
                select coalesce(p.relid, to_regclass(x.name))
                from unnest({tables}) as x(name)
                left join lateral pg_partition_tree(to_regclass(x.name)) as p on true));
    while v_tables is not null loop
        begin
            v_held := null;
            perform set_config('lock_timeout', '1s', true);
            foreach v_table in array case
                when v_first is null then v_tables
                else v_first || array_remove(v_tables, v_first)
            end loop
                execute format('lock table only %s in access exclusive mode%s', v_table,
                    case when clock_timestamp() - v_held > interval '0.6 s' then ' nowait' end);
                if v_held is null then
                    v_held := clock_timestamp();
                    perform set_config('lock_timeout', '100ms', true);
                end if;
            end loop;
            exit;
        exception
            when lock_not_available or deadlock_detected then
                if clock_timestamp() > v_last then
                    raise exception using errcode = 'lock_not_available',
                        message = format('table %s stays locked', v_table),
                        hint = coalesce((
                            -- Those that have held it all the time; who may not see that sees all.
                            select 'end the transaction: ' || string_agg(h.how, '; ' order by h.how)
                                || '; then repeat the command'
                            from (
                                select format('select pg_terminate_backend(%s)', l.pid)
                                from pg_locks as l
                                left join pg_stat_activity as a on a.pid = l.pid
                                where l.locktype = 'relation' and l.granted
                                    and l.relation = v_table and l.pid <> pg_backend_pid()
                                    and coalesce(a.xact_start <= now(), true)
                                union
                                select format('commit prepared %1$L, or rollback prepared %1$L',
                                    p.gid)
                                from pg_locks as l
                                join pg_locks as x on x.locktype = 'transactionid' and x.pid is null
                                    and x.virtualtransaction = l.virtualtransaction
                                join pg_prepared_xacts as p on p.transaction = x.transactionid
                                where l.locktype = 'relation' and l.granted
                                    and l.relation = v_table and l.pid is null
                            ) as h(how)), 'repeat the command');
                end if;
                v_first := v_table;
        end;
        -- Those who have waited go on.
        perform pg_sleep(0.1);
    end loop;
    perform set_config('lock_timeout', '1s', true), set_config('search_path', v_path, true);
end
$londiste$;
"""


def statement(
    schemas: Sequence[str],
    *,
    triggers: bool = False,
    tables: Sequence[TableName] = (),
    patience: float | None = None,
) -> sql.Composed:
    """The statement that ``take`` executes, for a script."""
    quoted = [sql.Literal(sql.Identifier(*name).as_string()) for name in tables]
    return sql.SQL(_TAKE).format(
        patience=sql.Literal(timedelta(seconds=PATIENCE if patience is None else patience)),
        schemas=sql.SQL("array[{}]::name[]").format(sql.SQL(", ").join(map(sql.Literal, schemas))),
        triggers=sql.Literal(triggers),
        tables=sql.SQL("array[{}]::text[]").format(sql.SQL(", ").join(quoted)),
    )


def take(
    conn: Connection,
    schemas: Sequence[str],
    *,
    triggers: bool = False,
    tables: Sequence[TableName] = (),
    patience: float | None = None,
) -> None:
    """Locks the tables of these schemas in the current transaction; those of events are not.

    triggers -- also the tables with triggers of these schemas, if the role may lock them.
    tables -- also these, with their partitions; those that do not exist are left out.
    patience -- seconds; None: ``PATIENCE``.

    Raises psycopg.errors.LockNotAvailable when a table stays locked for ``patience``.
    """
    conn.execute(statement(schemas, triggers=triggers, tables=tables, patience=patience))
