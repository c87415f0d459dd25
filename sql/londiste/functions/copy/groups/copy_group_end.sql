create or replace function londiste.copy_group_end(
    i_queue_name text, i_table_names text[], i_attempts int8[], i_to_state text,
    i_snapshot text, i_consumer_name text
)
returns setof text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the next state of tables whose rows are copied.  Returns the names of the changed tables.
 *
 * One consumer replays the changes since the copy.  The function skips tables that are not to be
 * copied any more, and tables whose attempt is not the current one.  It also skips tables without a
 * done-mark: their rows were lost in a crash of the server.
 *
 * i_to_state, i_snapshot -- next state and copy snapshot of the tables.
 * i_consumer_name -- consumer by which they catch up.
 */
declare
    v_moved text[];
begin
    v_moved := array(
        select t.table_name
        from londiste.table_info t
        join unnest(i_table_names, i_attempts) as w (name, attempt) on w.name = t.table_name
        join londiste.copy_attempt a
            on a.queue_name = t.queue_name
            and a.table_name = t.table_name
            and a.attempt = w.attempt
        join londiste.copy_chunk c
            on c.queue_name = t.queue_name
            and c.table_name = t.table_name
            and c.attempt = w.attempt
            and c.chunk = 0
        where t.queue_name = i_queue_name
            and t.local
            and t.merge_state = 'in-copy'
        order by t.table_name
        for no key update of t, a);
    update londiste.copy_step s
    set started_at = c.done_at,
        seconds = c.seconds,
        tasks = 1,
        busy = c.seconds,
        rows = c.rows,
        bytes = c.bytes,
        waits = null
    from londiste.copy_chunk c
    where s.queue_name = i_queue_name
        and s.table_name = any(v_moved)
        and s.step = 'load'
        and c.queue_name = s.queue_name
        and c.table_name = s.table_name
        and c.chunk = 0;
    delete from londiste.copy_attempt a
    where a.queue_name = i_queue_name
        and a.table_name = any(v_moved);
    delete from londiste.copy_chunk c
    where c.queue_name = i_queue_name
        and c.table_name = any(v_moved);
    update londiste.table_info t
    set merge_state = i_to_state,
        custom_snapshot = i_snapshot
    where t.queue_name = i_queue_name
        and t.table_name = any(v_moved);
    insert into londiste.copy_member (queue_name, table_name, consumer_name)
    select i_queue_name, m.name, i_consumer_name
    from unnest(v_moved) as m (name)
    on conflict on constraint copy_member_pkey do update
    set consumer_name = excluded.consumer_name;
    return query select m.name from unnest(v_moved) as m (name);
end;
$$;
