create or replace function londiste.copy_end(
    i_queue_name text, i_table_name text, i_attempt int8
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Ends an attempt, finished or given up.  Returns false when it is not the current attempt.
 *
 * The caller stores the next state of the table in the same transaction.  So of two processes
 * with the same table only one can continue.
 */
begin
    delete from londiste.copy_attempt a
    where a.queue_name = i_queue_name
        and a.table_name = i_table_name
        and a.attempt = i_attempt;
    if not found then
        return false;
    end if;
    delete from londiste.copy_chunk c
    where c.queue_name = i_queue_name
        and c.table_name = i_table_name;
    delete from londiste.copy_range r
    where r.queue_name = i_queue_name
        and r.table_name = i_table_name;
    return true;
end;
$$;
