create or replace function londiste.copy_group_step(
    i_queue_name text, i_table_names text[], i_ended text, i_begun text,
    i_tasks int4 default null, i_busy float8 default null,
    i_rows int8 default null, i_bytes int8 default null
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Records for several tables that one step has ended and the next one starts.
 *
 * It does for each table what copy_step_end() and copy_step_start() do for one.  Rows and bytes are
 * recorded with the first table, because they were moved once for all tables.
 *
 * i_ended, i_begun -- names of the steps; NULL: no step has ended, or none starts.
 */
begin
    perform 1
    from londiste.table_info t
    where t.queue_name = i_queue_name
        and t.table_name = any(i_table_names)
    order by t.table_name
    for key share;
    update londiste.copy_step s
    set seconds = extract(epoch from clock_timestamp() - s.started_at),
        tasks = case when s.table_name = i_table_names[1] then coalesce(i_tasks, 1) else 1 end,
        busy = case when s.table_name = i_table_names[1] then i_busy end,
        rows = case when s.table_name = i_table_names[1] then i_rows end,
        bytes = case when s.table_name = i_table_names[1] then i_bytes end,
        waits = null
    where s.queue_name = i_queue_name
        and s.table_name = any(i_table_names)
        and s.step = i_ended
        and s.seconds is null;
    if i_begun is null then
        return;
    end if;
    insert into londiste.copy_step as s (queue_name, table_name, step)
    select t.queue_name, t.table_name, i_begun
    from londiste.table_info t
    where t.queue_name = i_queue_name
        and t.table_name = any(i_table_names)
    on conflict on constraint copy_step_pkey do update
    set started_at = excluded.started_at,
        seconds = null,
        tasks = 1,
        busy = null,
        rows = null,
        bytes = null,
        waits = null
    where s.seconds is not null;
end;
$$;
