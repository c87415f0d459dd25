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
 * Replicated tables in sync whose noted version is known, and what became of them since.
 *
 * i_queue_name -- NULL: of all queues.  changed -- the version is another one now; rewritten -- by
 * DDL that changed rows, since it was noted; rewritten_at -- that was found earlier.
 */
select v.queue_name, v.table_name,
    (m.filenode, m.columns) is distinct from (v.filenode, v.columns),
    m.filenode <> v.filenode and m.columns <> v.columns or m.last_filled > v.last_column,
    v.rewritten_at
from londiste.table_version v
    join londiste.table_info t using (queue_name, table_name)
    -- A table that was dropped and created again has a finding of its own.
    join pg_class c on c.oid = v.relid
    cross join lateral londiste._table_mark(v.relid) m
where v.queue_name = coalesce(i_queue_name, v.queue_name)
    and t.local
    and t.merge_state = 'ok'
    and m.columns is not null
order by t.nr;
$$;
