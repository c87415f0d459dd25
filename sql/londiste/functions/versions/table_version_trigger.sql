create or replace function londiste.table_version_trigger()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the version of a table that is in sync now; deletes that of a table to be copied, or removed.
 */
begin
    if tg_op = 'UPDATE'
        and (new.local, new.merge_state, new.dest_table)
            is not distinct from (old.local, old.merge_state, old.dest_table)
    then
        return null;
    end if;
    if tg_op <> 'DELETE' and new.local and new.merge_state = 'ok' then
        perform londiste._note_version(new.queue_name, new.table_name);
    else
        -- No foreign key deletes anything for the replica role.
        delete from londiste.table_version v
        where v.queue_name = coalesce(new.queue_name, old.queue_name)
            and v.table_name = coalesce(new.table_name, old.table_name);
    end if;
    return null;
end;
$$;
