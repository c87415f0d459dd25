create or replace function londiste._leave_group()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Removes a table from its group when it is in sync, removed, or to be copied again.
 *
 * It applies to every writer of the state.
 */
begin
    delete from londiste.copy_member m
    where m.queue_name = old.queue_name
        and m.table_name = old.table_name;
    return null;
end;
$$;
