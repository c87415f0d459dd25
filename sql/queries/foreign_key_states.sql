/*
 * Foreign keys from and to the local tables of a queue, and all that were taken off and wait.
 *
 * %(queue)s -- the queue; names are schema.name in this database.
 * from_states, to_states -- states of the table that are not ok, in every queue that fills it.
 * checking_since -- when a session began to look at its rows.
 */
with here as (
    select t.queue_name, coalesce(t.dest_table, t.table_name) as name,
        case when t.merge_state = 'ok' and t.custom_snapshot is null then null
            else coalesce(nullif(t.merge_state, 'ok'), 'waiting for its copy') end as state,
        t.merge_state
    from londiste.table_info as t
    where t.local
), keys as (
    select fn.nspname || '.' || f.relname as from_table, tn.nspname || '.' || t.relname as to_table,
        k.conname::text as name, k.convalidated as valid,
        coalesce((pg_catalog.to_jsonb(k) ->> 'conenforced')::bool, true) as enforced
    from pg_catalog.pg_constraint as k
        join pg_catalog.pg_class as f on f.oid = k.conrelid
        join pg_catalog.pg_namespace as fn on fn.oid = f.relnamespace
        join pg_catalog.pg_class as t on t.oid = k.confrelid
        join pg_catalog.pg_namespace as tn on tn.oid = t.relnamespace
    where k.contype = 'f' and k.conparentid = 0
), known as (
    select coalesce(k.from_table, p.from_table) as from_table,
        coalesce(k.to_table, p.to_table) as to_table,
        coalesce(k.name, p.fkey_name) as name,
        k.name is not null as there, coalesce(k.valid, false) as valid,
        coalesce(k.enforced, true) as enforced,
        p.fkey_name is not null as pending
    from keys as k
        full join londiste.pending_fkeys as p
            on p.from_table = k.from_table and p.fkey_name = k.name
)
select b.from_table, b.to_table, b.name, b.there, b.valid, b.enforced, b.pending,
    londiste.find_table_oid(b.from_table) is not null as from_exists,
    londiste.find_table_oid(b.to_table) is not null as to_exists,
    exists (select from here as h where h.name = b.from_table) as from_replicated,
    exists (select from here as h where h.name = b.to_table) as to_replicated,
    array(select h.state from here as h where h.name = b.from_table and h.state is not null)
        as from_states,
    array(select h.state from here as h where h.name = b.to_table and h.state is not null)
        as to_states,
    (
        select min(a.query_start)
        from pg_catalog.pg_stat_activity as a
            join pg_catalog.pg_locks as l
                on l.pid = a.pid
                    and l.relation = londiste.find_table_oid(b.from_table)
                    and l.mode = 'ShareUpdateExclusiveLock'
        where a.datname = current_database()
            and l.database = (select d.oid from pg_catalog.pg_database as d
                              where d.datname = current_database())
            and a.state = 'active'
            and a.pid <> pg_catalog.pg_backend_pid()
            -- The whole name: keys of one table may begin alike.
            and (regexp_match(a.query, 'validate\s+constraint\s+("(?:[^"]|"")+"|[^\s;,]+)', 'i'))[1]
                in (format('%%I', b.name), b.name)
    ) as checking_since
from known as b
where b.pending
    or exists (
        select from here as h
        where h.queue_name = %(queue)s and h.name in (b.from_table, b.to_table))
order by 1, 3
