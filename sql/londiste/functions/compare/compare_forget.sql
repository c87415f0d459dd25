create or replace function londiste.compare_forget(
    i_queue_name text,
    i_job text,
    i_table_name text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes the ranges of a table; NULL: of all tables.  Returns their number.
 */
declare
    v_count int4;
begin
    delete from londiste.compare_range
    where queue_name = i_queue_name and job = i_job
        and (i_table_name is null or table_name = i_table_name);
    get diagnostics v_count = row_count;
    return v_count;
end;
$$;
