create or replace function londiste.copy_choices(
    i_queue_name text, out table_name text, out mode text, out reason text, out refused bool
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/* Returns the copy mode of each table's last or current copy, and why it was chosen. */
    select c.table_name, c.mode, c.reason, c.refused
    from londiste.copy_choice c
    where c.queue_name = i_queue_name
    order by c.table_name
$$;
