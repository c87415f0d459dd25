create or replace function londiste.copy_steps(
    i_queue_name text,
    out table_name text,
    out step text,
    out started_at timestamptz,
    out seconds float8,
    out finished bool,
    out tasks int4,
    out busy float8,
    out rows int8,
    out bytes int8,
    out waits text
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the steps of the last copy of each table of a queue, in the order of their start.
 *
 * seconds -- duration of the step; for an unfinished step, the time until now.
 */
    select
        s.table_name,
        s.step,
        s.started_at,
        coalesce(s.seconds, extract(epoch from clock_timestamp() - s.started_at)::float8),
        s.seconds is not null,
        s.tasks,
        s.busy,
        s.rows,
        s.bytes,
        s.waits
    from londiste.copy_step s
    join londiste.table_info t
        on t.queue_name = s.queue_name
        and t.table_name = s.table_name
    where s.queue_name = i_queue_name
    order by t.nr, s.table_name, s.started_at, s.step
$$;
