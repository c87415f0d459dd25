create or replace function londiste.get_copy_control(
    i_queue_name text,
    out paused bool,
    out break_off bool,
    out bytes_per_second int8,
    out tasks int4,
    out held_bytes_per_second int8,
    out held_reason text,
    out changed_at timestamptz,
    out full_speed bool
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the pause and the limits of a queue's copies; no row when none was ever set.
 */
    select
        c.paused,
        c.break_off,
        c.bytes_per_second,
        c.tasks,
        c.held_bytes_per_second,
        c.held_reason,
        c.changed_at,
        c.full_speed
    from londiste.copy_control c
    where c.queue_name = i_queue_name
$$;
