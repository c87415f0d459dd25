create or replace function londiste.rewritten_tables(
    i_queue_name text,
    out table_name text,
    out since timestamptz)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the tables of a queue whose rows DDL has changed on this node without events.
 *
 * since -- time at which the change was found.
 *
 * ALTER TABLE ... TYPE ... USING and ADD COLUMN ... DEFAULT write values that no trigger sees.  Scripts of
 * londiste execute run on all nodes and are not listed.
 */
select f.table_name, coalesce(f.rewritten_at, now())
from londiste._versions(i_queue_name) f
where f.rewritten or f.rewritten_at is not null;
$$;
