create or replace function londiste.apply_sweep(i_queue_name text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Drops the staged rows of a queue's large batch.  Returns the number of the attempt, if any.
 *
 * Waits for tasks that are still writing (lock_timeout limits the wait).
 */
declare
    v_attempt int8;
begin
    select b.attempt into v_attempt
    from londiste.large_batch b
    where b.queue_name = i_queue_name
    for update;
    if to_regclass('londiste.staged_events_' || v_attempt) is not null then
        execute format('drop table londiste.%I', 'staged_events_' || v_attempt);
    end if;
    if to_regclass('londiste.staged_' || v_attempt) is null then
        v_attempt := null;
    else
        execute format('drop table londiste.%I', 'staged_' || v_attempt);
    end if;
    delete from londiste.large_batch_slice s
    where s.queue_name = i_queue_name;
    return v_attempt;
end;
$$;
