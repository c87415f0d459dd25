create or replace function pgq_ext.drop_sink_stage(a_stage int8)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Drops a table of staged rows; a table that does not exist is no error.
 *
 * Waits for tasks that are still writing into it (lock_timeout limits the wait).
 */
begin
    delete from pgq_ext.sink_stage where stage_id = a_stage;
    if found then
        execute format('drop table if exists pgq_ext.%I', 'staged_' || a_stage);
    end if;
end;
$$;
