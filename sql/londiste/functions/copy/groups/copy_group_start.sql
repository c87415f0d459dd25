create or replace function londiste.copy_group_start(
    i_queue_name text, i_table_names text[], i_bytes int8[], i_rows int8[], i_reasons text[],
    out table_name text, out attempt int8
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Starts new copies of several small tables, each of one chunk, as copy_start() does for one.
 *
 * i_reasons -- why each table is copied in one snapshot.
 *
 * The function skips tables that are not to be copied, or that have indexes to restore.  It also
 * skips tables whose row or attempt another session has locked, so that it waits for none.
 */
begin
    return query
    with wanted as (
        select w.name, w.bytes, w.rows
        from unnest(i_table_names, i_bytes, i_rows) as w (name, bytes, rows)
    ), registered as (
        select t.table_name as name
        from londiste.table_info t
        where t.queue_name = i_queue_name
            and t.table_name = any(i_table_names)
            and t.local
            and t.merge_state = 'in-copy'
            and t.dropped_ddl is null
        order by t.table_name
        for key share skip locked
    ), idle as (
        select a.table_name as name
        from londiste.copy_attempt a
        where a.queue_name = i_queue_name
            and a.table_name = any(i_table_names)
        for update skip locked
    )
    insert into londiste.copy_attempt as c
        (queue_name, table_name, attempt, total_bytes, total_rows, total_chunks)
    select i_queue_name, w.name, nextval('londiste.copy_attempt_id'), w.bytes, w.rows, 1
    from wanted w
    join registered r using (name)
    left join idle i using (name)
    where i.name is not null
        or not exists (
            select from londiste.copy_attempt a
            where a.queue_name = i_queue_name
                and a.table_name = w.name)
    on conflict on constraint copy_attempt_pkey do update
    set attempt = excluded.attempt,
        stop_requested = false,
        total_bytes = excluded.total_bytes,
        total_rows = excluded.total_rows,
        total_chunks = excluded.total_chunks,
        started_at = now(),
        resumes = false,
        plan = null
    returning c.table_name, c.attempt;

    -- Delete what remains of earlier copies: marks of older attempts, recorded steps.
    delete from londiste.copy_chunk c
    using londiste.copy_attempt a
    where c.queue_name = i_queue_name
        and c.table_name = any(i_table_names)
        and a.queue_name = c.queue_name
        and a.table_name = c.table_name
        and a.started_at = now()
        and a.attempt <> c.attempt;
    delete from londiste.copy_range r
    using londiste.copy_attempt a
    where r.queue_name = i_queue_name
        and r.table_name = any(i_table_names)
        and a.queue_name = r.queue_name
        and a.table_name = r.table_name
        and a.started_at = now()
        and a.attempt <> r.attempt;
    delete from londiste.copy_step s
    using londiste.copy_attempt a
    where s.queue_name = i_queue_name
        and s.table_name = any(i_table_names)
        and a.queue_name = s.queue_name
        and a.table_name = s.table_name
        and a.started_at = now();
    insert into londiste.copy_step (queue_name, table_name, step)
    select a.queue_name, a.table_name, 'load'
    from londiste.copy_attempt a
    where a.queue_name = i_queue_name
        and a.table_name = any(i_table_names)
        and a.started_at = now();
    insert into londiste.copy_choice as c (queue_name, table_name, mode, reason)
    select a.queue_name, a.table_name, 'snapshot', w.reason
    from unnest(i_table_names, i_reasons) as w (name, reason)
    join londiste.copy_attempt a
        on a.queue_name = i_queue_name
        and a.table_name = w.name
        and a.started_at = now()
    on conflict on constraint copy_choice_pkey do update
    set mode = excluded.mode,
        reason = excluded.reason,
        refused = false;
end;
$$;
