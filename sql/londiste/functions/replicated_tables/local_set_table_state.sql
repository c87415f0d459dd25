create or replace function londiste.local_set_table_state(
    i_queue_name text,
    i_table_name text,
    i_snapshot text,
    i_merge_state text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores state and copy snapshot of a table; the table name must include the schema.
 *
 * The statements that restore what a copy has dropped exist only in the states in-copy and
 * catching-up.  While there are some, a check of the table refuses other states.  The worker is
 * notified at once (channel londiste_tables).
 *
 * ret_code -- 200 stored; 404 unknown table.
 */
begin
    update londiste.table_info
    set custom_snapshot = i_snapshot,
        merge_state = i_merge_state
    where queue_name = i_queue_name and table_name = i_table_name;
    if not found then
        select 404, 'No such table: ' || coalesce(i_table_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    perform pg_notify('londiste_tables', left(i_queue_name, 1000));
    select 200, 'Table ' || i_table_name || ' state set to ' || coalesce(i_merge_state, 'NULL')
        into ret_code, ret_note;
end;
$$;
