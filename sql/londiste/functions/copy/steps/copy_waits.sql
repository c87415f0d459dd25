create or replace function londiste.copy_waits(
    i_queue_name text, out table_name text, out waits text
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/* Returns the tables whose copies wait and will continue automatically, and what they wait for. */
    select s.table_name, s.waits
    from londiste.copy_step s
    where s.queue_name = i_queue_name
        and s.seconds is null
        and s.waits is not null
    order by s.table_name
$$;
