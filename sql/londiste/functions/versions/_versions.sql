create or replace function londiste._versions(
    i_queue_name text,
    out queue_name text,
    out table_name text,
    out changed boolean,
    out rewritten boolean,
    out rewritten_at timestamptz)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the replicated tables in sync with a stored version, and their changes since.
 *
 * i_queue_name -- NULL: all queues.
 * changed -- the version differs from the stored one.
 * rewritten -- DDL has changed rows since the version was stored.
 * rewritten_at -- time at which an earlier rewrite was found.
 */
select v.queue_name, v.table_name,
    (m.filenode, m.columns) is distinct from (v.filenode, v.columns) or v.names is null
        or v.partitions is null,
    m.filenode <> v.filenode and m.columns <> v.columns
        or m.last_filled > v.last_column
        -- A column was dropped, and a new one has its name.
        or exists (
            select from unnest(v.names) with ordinality as o (name, number)
            where m.names[o.number] is null
                and o.name = any (m.names[v.last_column + 1:])),
    v.rewritten_at
from londiste.table_version v
    join londiste.table_info t using (queue_name, table_name)
    -- A table that was dropped and created again is reported separately (_replaced).
    join pg_class c on c.oid = v.relid and v.home = 'londiste.table_info'::regclass
    cross join lateral londiste._table_mark(v.relid) m
where v.queue_name = coalesce(i_queue_name, v.queue_name)
    and t.local
    and t.merge_state = 'ok'
    and m.columns is not null
order by t.nr;
$$;
