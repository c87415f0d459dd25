create or replace function pgq_ext.drop_sink_stage(a_stage int8)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Drops a table of staged rows; one that is gone is no error.
 *
 * Waits for tasks that still write into it (lock_timeout bounds the wait).
 */
begin
    delete from pgq_ext.sink_stage where stage_id = a_stage;
    if found then
        execute format('drop table if exists pgq_ext.%I', 'staged_' || a_stage);
    end if;
end;
$$;
