create or replace function londiste.copy_members(
    i_queue_name text, out table_name text, out consumer_name text
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/* Returns the tables of a queue that catch up together, with their consumer. */
    select m.table_name, m.consumer_name
    from londiste.copy_member m
    where m.queue_name = i_queue_name
    order by m.consumer_name, m.table_name
$$;
