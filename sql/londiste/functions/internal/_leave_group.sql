create or replace function londiste._leave_group()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * A table that is in step, removed, or to be copied again catches up with no others any more,
 * whoever has written that into its state.
 */
begin
    delete from londiste.copy_member m
    where m.queue_name = old.queue_name
        and m.table_name = old.table_name;
    return null;
end;
$$;
