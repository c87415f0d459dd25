create or replace function londiste.copy_throttle(
    i_queue_name text,
    i_bytes_per_second int8,
    i_tasks int4,
    i_full_speed bool default null
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Limits the copies of a queue.
 *
 * i_bytes_per_second -- limit for all copies together, in bytes per second; NULL: no limit.
 *     Running tasks obey a new limit within a second.
 * i_tasks -- maximum number of chunks that are copied at the same time; NULL: no limit.  A smaller
 *     number takes effect when running chunks are finished.
 * i_full_speed -- true: the copies do not give way to the writers of the provider.  false: they do.
 *     NULL (default): unchanged.
 *
 * Raises LD003 when this database is no node of the queue, LD005 for an invalid limit.
 */
begin
    if i_bytes_per_second < 16384 or i_tasks < 1 then
        raise exception using
            errcode = 'LD005',
            message = format('invalid limit of copies: %s bytes per second, %s tasks',
                coalesce(i_bytes_per_second::text, 'any'), coalesce(i_tasks::text, 'any')),
            detail = 'the smallest limits are 16384 bytes per second and 1 task',
            hint = format('to pause them: select londiste.copy_pause(%L)', i_queue_name);
    end if;
    perform londiste._require_node(i_queue_name);
    insert into londiste.copy_control as c (queue_name, bytes_per_second, tasks, full_speed)
    values (i_queue_name, i_bytes_per_second, i_tasks, coalesce(i_full_speed, false))
    on conflict (queue_name) do update
    set bytes_per_second = excluded.bytes_per_second,
        tasks = excluded.tasks,
        full_speed = coalesce(i_full_speed, c.full_speed),
        changed_at = now();
end;
$$;
