create or replace function londiste.copy_step_start(i_queue_name text, i_table_name text, i_step text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Records that a step of a table's copy starts.
 *
 * A step that was started and not ended continues: its time counts from its first start.  The
 * first step, load, of a new copy deletes the recorded steps of the copy before.
 */
begin
    -- In the same order as the session that removes the table.
    perform 1
    from londiste.table_info t
    where t.queue_name = i_queue_name
        and t.table_name = i_table_name
    for key share;
    if not found then
        return;
    end if;
    if i_step = 'load' then
        delete from londiste.copy_step s
        where s.queue_name = i_queue_name
            and s.table_name = i_table_name
            and (s.step <> i_step or s.seconds is not null);
    end if;
    insert into londiste.copy_step as s (queue_name, table_name, step)
    values (i_queue_name, i_table_name, i_step)
    on conflict (queue_name, table_name, step) do update
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
