create or replace function londiste.copy_member_start(
    i_queue_name text, i_table_name text, i_attempt int8
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns for the only chunk of a table in a group what copy_chunk_start() returns for a chunk.
 *
 * A table of a group may wait for its turn.  So the result is 'superseded', too, when the table is
 * not to be copied any more, or another session has locked it.  A session that removes the table
 * waits for the end of the transaction.
 */
begin
    perform 1
    from londiste.table_info t
    where t.queue_name = i_queue_name
        and t.table_name = i_table_name
        and t.local
        and t.merge_state = 'in-copy'
    for key share;
    if not found or exists (
        select from londiste.copy_attempt a
        where a.queue_name = i_queue_name
            and a.table_name = i_table_name
            and a.stop_requested)
    then
        return 'superseded';
    end if;
    return londiste.copy_chunk_start(i_queue_name, i_table_name, i_attempt, 0);
end;
$$;
