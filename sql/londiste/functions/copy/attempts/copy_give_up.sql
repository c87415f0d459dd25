create or replace function londiste.copy_give_up(
    i_queue_name text, i_table_name text, i_attempt int8
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Ends an attempt whose rows are not needed.  Returns false when it is not the current attempt.
 *
 * For a table that keeps its existing rows (skip_truncate) the done-marks stay.  With them
 * copy_written() finds the rows that the next attempt must delete.
 */
begin
    if not exists (
        select
        from londiste.table_info t
        where t.queue_name = i_queue_name
            and t.table_name = i_table_name
            and t.local
            and '&' || t.table_attrs || '&' like E'%&skip\\_truncate=%'
    ) then
        return londiste.copy_end(i_queue_name, i_table_name, i_attempt);
    end if;
    delete from londiste.copy_attempt a
    where a.queue_name = i_queue_name
        and a.table_name = i_table_name
        and a.attempt = i_attempt;
    return found;
end;
$$;
