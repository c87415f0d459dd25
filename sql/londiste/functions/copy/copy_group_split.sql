create or replace function londiste.copy_group_split(
    i_queue_name text, i_table_names text[], i_from_consumer text, i_to_consumer text
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * From now on some tables of a group catch up by another consumer, which stands where theirs does.
 *
 * For its copy process alone, which moves the first consumer no further meanwhile.
 */
begin
    update londiste.copy_member m
    set consumer_name = i_to_consumer
    where m.queue_name = i_queue_name
        and m.table_name = any(i_table_names)
        and m.consumer_name = i_from_consumer;
end;
$$;
