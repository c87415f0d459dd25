create or replace function londiste.copy_group_split(
    i_queue_name text, i_table_names text[], i_from_consumer text, i_to_consumer text
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Moves tables of a group to another consumer at the same position, which catches them up.
 *
 * Only the copy process of the group may call it.  It does not move the first consumer during the
 * call.
 */
begin
    update londiste.copy_member m
    set consumer_name = i_to_consumer
    where m.queue_name = i_queue_name
        and m.table_name = any(i_table_names)
        and m.consumer_name = i_from_consumer;
end;
$$;
