create or replace function londiste.copy_hold(i_queue_name text, i_bytes_per_second int8, i_reason text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Sets a rate limit in addition to copy_throttle(), for the copy process that watches the load.
 *
 * i_bytes_per_second -- NULL removes the limit.
 */
begin
    update londiste.copy_control c
    set held_bytes_per_second = i_bytes_per_second,
        held_reason = i_reason
    where c.queue_name = i_queue_name
        and (c.held_bytes_per_second, c.held_reason)
            is distinct from (i_bytes_per_second, i_reason);
    if not found and i_bytes_per_second is not null then
        insert into londiste.copy_control
            (queue_name, held_bytes_per_second, held_reason)
        values (i_queue_name, i_bytes_per_second, i_reason)
        on conflict do nothing;
    end if;
end;
$$;
