create or replace function londiste.copy_choices(
    i_queue_name text, out table_name text, out mode text, out reason text, out refused bool
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/* In which way each table of a queue was copied last, or is being copied, and why. */
    select c.table_name, c.mode, c.reason, c.refused
    from londiste.copy_choice c
    where c.queue_name = i_queue_name
    order by c.table_name
$$;
