create or replace function londiste.move_table_states(
    i_queue_name text, i_table_names text[], i_from_states text[], i_to_states text[],
    i_snapshots text[], i_consumer_name text default null
)
returns setof text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the next states of several tables, as move_table_state() does for one.
 *
 * A table that is not in its expected state does not change.  Returns the names of the changed
 * tables.
 *
 * i_consumer_name -- change only tables that catch up by this consumer; NULL (default): all.
 */
begin
    -- Worker and copy process wait for each other.
    perform pg_notify('londiste_tables', left(i_queue_name, 1000));
    return query
    with wanted as (
        select w.name, w.old, w.new, w.snapshot
        from unnest(i_table_names, i_from_states, i_to_states, i_snapshots)
            as w (name, old, new, snapshot)
    ), found as (
        -- One order for all who change several.
        select t.table_name
        from londiste.table_info t
        where t.queue_name = i_queue_name
            and t.table_name = any(i_table_names)
            and t.local
        order by t.table_name
        for no key update
    )
    update londiste.table_info t
    set merge_state = w.new,
        custom_snapshot = w.snapshot
    from found f
    join wanted w on w.name = f.table_name
    where t.queue_name = i_queue_name
        and t.table_name = w.name
        and t.local
        and t.merge_state is not distinct from w.old
        and (i_consumer_name is null or exists (
            select from londiste.copy_member m
            where m.queue_name = i_queue_name
                and m.table_name = w.name
                and m.consumer_name = i_consumer_name))
    returning t.table_name;
end;
$$;
