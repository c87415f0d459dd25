create or replace function londiste.replaced_tables(
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
 * Returns the tables of a queue that are not those that were copied to this node.
 *
 * since -- time at which it was found.
 *
 * A table that is dropped and created again, or another one that is renamed, has the name, and lacks
 * the rows of before.  The table of a root is another matter: its capture is lost (lost_captures).
 * accept_rewrite() removes a table whose rows were compared.
 */
select f.table_name, coalesce(f.replaced_at, now())
from londiste._replaced(i_queue_name) f
where not f.is_root or f.replaced_at is not null;
$$;
