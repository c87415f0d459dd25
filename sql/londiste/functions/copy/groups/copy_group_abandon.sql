create or replace function londiste.copy_group_abandon(
    i_queue_name text, i_table_names text[], i_attempts int8[]
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Gives up several attempts that are current, as copy_end() does for one.
 *
 * Waits for their tasks; lock_timeout limits the wait.
 */
declare
    v_ended text[];
begin
    with ended as (
        delete from londiste.copy_attempt a
        using unnest(i_table_names, i_attempts) as w (name, attempt)
        where a.queue_name = i_queue_name
            and a.table_name = w.name
            and a.attempt = w.attempt
        returning a.table_name
    )
    select array_agg(e.table_name) into v_ended
    from ended e;
    delete from londiste.copy_chunk c
    where c.queue_name = i_queue_name
        and c.table_name = any(v_ended);
end;
$$;
