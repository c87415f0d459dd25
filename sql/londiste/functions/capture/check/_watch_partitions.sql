create or replace function londiste._watch_partitions(i_accept boolean)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Records changes of rows in captured partitioned tables without an event.  Returns their number.
 *
 * No trigger fires on ATTACH, DETACH and DROP, and a new partition has no TRUNCATE trigger until the
 * next maintenance.  A capture begins with the partitions of its table; one of an older release, or in
 * a restored database, with those of the first check.
 *
 * i_accept -- true: the changes of this transaction are those of a script that runs on all nodes.
 */
declare
    v_table record;
    v_part record;
    v_rows int8;
    v_wrong text;
    v_count int4 := 0;
    -- ATTACH, DETACH, DROP and TRUNCATE take such a lock on the partition, or on the tree that it is in, and
    -- keep it until their transaction ends.
    v_own oid[] := case when i_accept then londiste._locked_tables() else '{}' end;
begin
    -- One look at a time: a script may need hours, and maintenance does not wait for it.
    if not pg_try_advisory_xact_lock('londiste.capture_partition'::regclass::oid::int4, 0) then
        return 0;
    end if;
    delete from londiste.capture_partition as k
    where not exists (
        select from londiste._captures(null::text) as c
        where c.args[1] = k.queue_name and c.table_name = k.table_name);
    for v_table in
        select distinct c.relid, c.table_name, c.args[1] as queue_name, c.args[2] as event_table,
            o.condition is null and position('D' in o.ops) > 0 as tells_deletes,
            k.relid is null as is_first, k.looked
        from londiste._captures(null::text) as c
            join pg_class as r on r.oid = c.relid
            cross join lateral londiste._capture_options(c.args[3:]) as o
            left join londiste.capture_partition as k
                on k.queue_name = c.args[1]
                and k.table_name = c.table_name
                and k.relid = c.relid
                and k.place = (select p.place from londiste._partition_places(c.relid) as p where p.oid = c.relid)
        where r.relkind = 'p'
    loop
        if v_table.is_first then
            perform londiste._know_partitions(v_table.queue_name, v_table.relid);
            continue;
        end if;
        for v_part in
            select p.oid, p.place, p.placed, p.is_attached, c.oid::regclass::text as name,
                c.relfilenode <> c.oid as is_rewritten,
                -- ATTACH has changed its entry last; the triggers of the capture come in this transaction.
                age(c.xmin) < age(p.placed) and not londiste._written_here(c.xmin) as is_changed,
                k.relid is null as is_new, k.place as known_place, k.rows as known_rows,
                -- One that has left and is no error is not kept.
                k.place is null and k.wrong is not null as is_back
            from londiste._partition_places(v_table.relid) as p
                join pg_class as c on c.oid = p.oid
                left join londiste.capture_partition as k
                    on k.queue_name = v_table.queue_name
                    and k.table_name = v_table.table_name
                    and k.relid = p.oid
            where p.oid <> v_table.relid
        loop
            v_rows := londiste._count_rows(v_part.oid);
            v_wrong := case
                when v_part.oid = any (v_own) then null
                when not v_part.is_new then
                    case when (v_part.known_place <> v_part.place or v_part.is_back) and greatest(v_part.known_rows, v_rows) > 0
                        then 'was detached and attached again, its rows may have changed meanwhile' end
                when v_part.is_attached and londiste._has_rows(v_part.oid, v_part.placed)
                    then 'was attached with rows, which subscribers did not get'
                when v_part.is_rewritten and (v_part.is_changed or not v_part.is_attached)
                    then 'was emptied or rewritten before its TRUNCATE was captured, subscribers may have rows too many'
            end;
            insert into londiste.capture_partition as k (queue_name, table_name, relid, partition, wrong, place, rows)
            values (v_table.queue_name, v_table.table_name, v_part.oid, v_part.name, v_wrong, v_part.place, v_rows)
            on conflict (queue_name, table_name, relid) do update
            set wrong = coalesce(excluded.wrong, k.wrong),
                first_seen = case when excluded.wrong is null then k.first_seen else now() end,
                place = excluded.place,
                rows = excluded.rows
            where (k.place, k.rows) is distinct from (excluded.place, excluded.rows);
            v_count := v_count + (v_wrong is not null)::int4;
        end loop;
        -- Those that have left the table.
        for v_part in
            select k.relid as oid, k.rows, c.oid is not null as is_there
            from londiste.capture_partition as k
                left join pg_class as c on c.oid = k.relid
            where k.queue_name = v_table.queue_name
                and k.table_name = v_table.table_name
                and k.place is not null
                and not exists (
                    select from pg_partition_tree(v_table.relid) as p
                    where p.relid = k.relid)
        loop
            v_wrong := case
                -- Subscribers keep every row, or never had those that do not satisfy the condition.
                when not v_table.tells_deletes
                    or v_part.oid = any (v_own)
                    or exists (
                        select from pg_partition_ancestors(v_part.oid) as a (relid)
                        where a.relid = any (v_own))
                    then null
                when v_part.is_there and londiste._count_rows(v_part.oid) > 0
                    then 'was detached with rows, which stay on subscribers'
                when v_part.rows > 0
                        and not londiste._told_deletes(
                            v_table.queue_name, v_table.event_table, v_table.looked, v_part.rows)
                    then case when v_part.is_there
                        then 'was detached with rows and emptied, subscribers may have rows too many'
                        else 'was dropped with rows, which stay on subscribers' end
            end;
            -- An earlier error stays until a later one takes its place.
            update londiste.capture_partition as k
            set wrong = coalesce(v_wrong, k.wrong),
                first_seen = case when v_wrong is null then k.first_seen else now() end,
                place = null
            where k.queue_name = v_table.queue_name
                and k.table_name = v_table.table_name
                and k.relid = v_part.oid;
            v_count := v_count + (v_wrong is not null)::int4;
        end loop;
        delete from londiste.capture_partition as k
        where k.queue_name = v_table.queue_name
            and k.table_name = v_table.table_name
            and k.place is null
            and k.wrong is null;
        update londiste.capture_partition as k
        set looked = txid_snapshot_xmin(txid_current_snapshot())
        where k.queue_name = v_table.queue_name
            and k.table_name = v_table.table_name
            and k.relid = v_table.relid;
    end loop;
    return v_count;
end;
$$;
