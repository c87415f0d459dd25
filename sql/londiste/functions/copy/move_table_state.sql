create or replace function londiste.move_table_state(
    i_queue_name text, i_table_name text, i_from_state text, i_to_state text, i_snapshot text
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the next state of a table if the table is still in the expected state.
 *
 * Returns false when it is not: another session has removed the table, or requested a new copy.
 * Then the caller must not continue.
 *
 * Worker and copy process wait for each other; both are notified on channel londiste_tables.
 */
begin
    update londiste.table_info t
    set merge_state = i_to_state,
        custom_snapshot = i_snapshot
    where t.queue_name = i_queue_name
        and t.table_name = i_table_name
        and t.local
        and t.merge_state is not distinct from i_from_state;
    if not found then
        return false;
    end if;
    perform pg_notify('londiste_tables', left(i_queue_name, 1000));
    return true;
end;
$$;
