create or replace function londiste.copy_piece_done(
    i_queue_name text, i_table_name text, i_piece text
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Takes a part off the statements that put a table's structure back, because it has been run.
 *
 * Called in the transaction that has run it, so that the part is either stored or has happened.
 * False when it is not stored (any more): then it must not have been run.
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
