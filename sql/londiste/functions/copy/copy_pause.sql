create or replace function londiste.copy_pause(i_queue_name text, i_break_off bool default false)
returns bool
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Lets no chunk of a queue's copies begin any more, until copy_resume(); false: it was so already.
 *
 * Chunks that run go on to their end, which every task's transaction has in sight.
 * i_break_off -- they are rolled back within a second instead, and copied again after the pause.
 *
 * Raises LD003 when the queue is no node here.
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
