create or replace function londiste.copy_pace(
    i_queue_name text,
    out bytes_per_second int8,
    out break_off bool
)
returns record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the current rate limit of one task.
 *
 * bytes_per_second -- the task's share of the limits; NULL: no limit.  The share is the limit of all
 *     copies divided by the number of tasks that hold a place now (copy_turn).
 * break_off -- true: the task must roll its chunk back.
 */
    select
        least(c.bytes_per_second, c.held_bytes_per_second) / greatest(1, (
            select count(*)
            from pg_locks l
            where l.locktype = 'advisory'
                and l.database = (select d.oid from pg_database d
                    where d.datname = current_database())
                and l.classid = (hashtext('londiste copy ' || i_queue_name)::int8 & 4294967295)::oid
                and l.objsubid = 2
                and l.granted)),
        coalesce(c.paused and c.break_off, false)
    from (values (i_queue_name)) q (queue_name)
    left join londiste.copy_control c using (queue_name)
$$;
