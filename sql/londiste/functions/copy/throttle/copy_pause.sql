create or replace function londiste.copy_pause(i_queue_name text, i_break_off bool default false)
returns bool
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stops the start of new chunks of a queue's copies until copy_resume().
 *
 * Returns false when the copies were paused already.
 *
 * i_break_off -- false (default): running chunks are completed.  true: running chunks are rolled
 *     back within a second, and copied again after the pause.
 *
 * Raises LD003 when this database is no node of the queue.
 */
declare
    v_paused bool;
begin
    perform londiste._require_node(i_queue_name);
    select c.paused into v_paused
    from londiste.copy_control c
    where c.queue_name = i_queue_name;
    insert into londiste.copy_control as c (queue_name, paused, break_off)
    values (i_queue_name, true, i_break_off)
    on conflict (queue_name) do update
    set paused = true,
        break_off = excluded.break_off,
        changed_at = now();
    return not coalesce(v_paused, false);
end;
$$;
