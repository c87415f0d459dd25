create or replace function londiste.copy_turn(
    i_queue_name text,
    out may_begin bool,
    out reason text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether a task may start its chunk now.  Call it in the transaction that copies the chunk.
 *
 * A task that may start holds one of the places that copy_throttle() allows: an advisory lock until
 * the end of its transaction.
 *
 * reason -- why the task may not start: paused or tasks.
 */
declare
    v_class int4 := hashtext('londiste copy ' || i_queue_name);
    v_paused bool;
    v_tasks int4;
begin
    select c.paused, c.tasks into v_paused, v_tasks
    from londiste.copy_control c
    where c.queue_name = i_queue_name;
    if v_paused then
        may_begin := false;
        reason := 'paused';
        return;
    end if;
    for v_place in 1 .. coalesce(v_tasks, 1000) loop
        if pg_try_advisory_xact_lock(v_class, v_place) then
            may_begin := true;
            return;
        end if;
    end loop;
    may_begin := false;
    reason := 'tasks';
end;
$$;
