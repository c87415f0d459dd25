create or replace function londiste.copy_piece_done(
    i_queue_name text, i_table_name text, i_piece text
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes an executed part of the statements that restore a table's structure.
 *
 * Call it in the transaction that has executed the part.  So the part is either stored or executed.
 * Returns false when the part is not stored (any more): then it must not be executed.
 */
begin
    update londiste.table_info t
    set dropped_ddl = nullif(
        overlay(t.dropped_ddl placing '' from strpos(t.dropped_ddl, i_piece)
            for length(i_piece)), '')
    where t.queue_name = i_queue_name
        and t.table_name = i_table_name
        and t.local
        and i_piece <> ''
        and strpos(t.dropped_ddl, i_piece) > 0;
    return found;
end;
$$;
