create or replace function londiste.local_add_table(
    i_queue_name text,
    i_table_name text,
    i_trg_args text[],
    i_table_attrs text,
    i_dest_table text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
/*
 * Replicates a table on this node.
 *
 * On the root the function adds the table to the queue, with state ok.  On other nodes the table
 * must be in the queue already.  There its state is NULL, so that the worker copies it.  With
 * expect_sync its state is ok.
 *
 * i_trg_args -- arguments for the triggers (see create_trigger) and the words expect_sync,
 *     skip_truncate, merge_all, no_merge, virtual_table, no_triggers, skip, insert_only, whole_row.
 *     insert_only admits a table without key: inserts are captured, updates and deletes
 *     fail on the root.
 * i_table_attrs -- url-encoded key=value pairs.
 * i_dest_table -- name of the table in this database, when it differs.
 *
 * ret_code -- 200 added, or added before with the same attributes; 301 added, but another
 *     trigger fires before Londiste's trigger; 400 no columns, no key, no node of this queue, or bad flag; 404
 *     no such table, or not in the queue; 405 options or sources that conflict, or delayed events
 *     that name the table and would stop subscribers; 410 added before with other attributes.
 *
 * On a code of 400 or above the caller must roll back; then nothing is changed.
 */
declare
    v_table text := londiste.make_fqname(i_table_name);
    v_dest text := londiste.make_fqname(coalesce(i_dest_table, i_table_name));
    v_words text[] := coalesce(i_trg_args, '{}');
    v_merge_all boolean := 'merge_all' = any (coalesce(i_trg_args, '{}'));
    v_no_merge boolean := 'no_merge' = any (coalesce(i_trg_args, '{}'));
    v_virtual boolean := 'virtual_table' = any (coalesce(i_trg_args, '{}'));
    v_no_triggers boolean := 'no_triggers' = any (coalesce(i_trg_args, '{}'));
    v_expect_sync boolean := 'expect_sync' = any (coalesce(i_trg_args, '{}'));
    v_attrs text := i_table_attrs;
    v_state text;
    v_node pgq_node.node_info;
    v_delayed int8;
    v_combined_type text;
    v_known londiste.table_info;
    v_sibling record;
    v_siblings text[] := '{}';
    v_trigger record;
    v_first text;
    v_queue text;
    v_note text;
begin
    if v_merge_all and v_no_merge then
        select 405, 'Cannot use merge-all and no-merge together' into ret_code, ret_note;
        return;
    end if;
    if 'skip_truncate' = any (v_words) then
        v_attrs := concat_ws('&', nullif(v_attrs, ''), 'skip_truncate=1');
    end if;
    if 'insert_only' = any (v_words) then
        v_attrs := concat_ws('&', nullif(v_attrs, ''), 'insert_only=1');
    end if;
    if 'whole_row' = any (v_words) then
        v_attrs := concat_ws('&', nullif(v_attrs, ''), 'whole_row=1');
    end if;

    if not v_virtual and londiste.find_table_oid(v_dest) is null then
        select 404, 'Table does not exist: ' || coalesce(v_dest, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if not v_virtual then
        v_note := londiste._partition_conflict(i_queue_name, v_table, v_dest);
        if v_note is not null then
            select 405, v_note into ret_code, ret_note;
            return;
        end if;
    end if;

    if not v_virtual and londiste.find_column_types(v_dest) is null then
        select 400, 'Table has no columns: ' || v_dest into ret_code, ret_note;
        return;
    end if;

    if not v_virtual
        and not exists (select from unnest(v_words) w
                        where w in ('insert_only', 'whole_row') or starts_with(w, 'pkey='))
        and coalesce(londiste.find_column_types(v_dest), '') not like '%k%'
        -- The first part of a merged copy has dropped the key for the time of the copy.
        and not exists (select from londiste.table_info t
                        where t.queue_name <> i_queue_name
                            and t.dropped_ddl is not null
                            and coalesce(t.dest_table, t.table_name) = v_dest)
    then
        select 400, 'Primary key missing on table: ' || v_dest into ret_code, ret_note;
        return;
    end if;

    select * into v_node from pgq_node.node_info n where n.queue_name = i_queue_name;
    if not found then
        select 400, 'No such set: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select n.node_type into v_combined_type
    from pgq_node.node_info n
    where n.queue_name = v_node.combined_queue;

    select * into v_known
    from londiste.table_info t
    where t.queue_name = i_queue_name and t.table_name = v_table
    for update;
    if v_node.node_type <> 'root' and v_known.table_name is null then
        select 404, 'Table not available on queue: ' || v_table into ret_code, ret_note;
        return;
    end if;
    if v_known.local then
        if coalesce(v_known.table_attrs, '') = coalesce(v_attrs, '') then
            select 200, 'Table already added: ' || v_table into ret_code, ret_note;
        else
            select 410, 'Table already added, but with different args: ' || v_table
                into ret_code, ret_note;
        end if;
        return;
    end if;

    if v_node.node_type = 'root' then
        -- Producers were free to write them while the table was not replicated (_require_producer).
        select count(*) into v_delayed
        from pgq.delayed_event as e join pgq.queue as q on q.queue_id = e.ev_queue
        where q.queue_name = i_queue_name
            and londiste.make_fqname(e.ev_extra1) = v_table
            and not pgq._is_applied(e.ev_type);
        if v_delayed > 0 then
            select 405, format('Queue has %s delayed events that name the table and would stop subscribers: '
                'select pgq.cancel_delayed_event(%L, ev_id) from pgq.delayed_event_list(%L)'
                ' where londiste.make_fqname(ev_extra1) = %L',
                v_delayed, i_queue_name, i_queue_name, v_table) into ret_code, ret_note;
            return;
        end if;
        v_state := 'ok';
        perform londiste.global_add_table(i_queue_name, v_table);
        perform londiste.root_notify_change(i_queue_name, 'londiste.add-table', v_table);
    elsif v_node.node_type = 'leaf' and v_combined_type = 'branch' then
        -- Rows come through the combined queue.
        v_state := 'ok';
    elsif v_expect_sync or v_virtual then
        v_state := 'ok';
    end if;

    if v_state is distinct from 'ok' and v_combined_type = 'root' then
        select t.queue_name into v_queue
        from londiste.table_info t
        where t.queue_name = v_node.combined_queue
            and t.local
            and coalesce(t.dest_table, t.table_name) = v_dest
            and exists (select from pgq_node.subscriber_info s where s.queue_name = t.queue_name);
        if found then
            -- The rows of the copy would be in no event of the combined queue, whose subscribers may
            -- have copied the table already.
            select 405, 'Table ' || v_dest || ' is in combined queue ' || v_queue
                || ' already, remove-table there first' into ret_code, ret_note;
            return;
        end if;
    end if;

    if v_node.node_type = 'leaf' and not v_no_merge then
        for v_sibling in
            select t.queue_name, t.table_name, t.local
            from londiste.table_info t join pgq_node.node_info n using (queue_name)
            where t.queue_name <> i_queue_name
                and n.node_type = 'leaf'
                and n.combined_queue is not distinct from v_node.combined_queue
                and coalesce(t.dest_table, t.table_name) = v_dest
            order by t.queue_name
        loop
            if v_sibling.local and v_state is distinct from 'ok' then
                select 405, 'Table ' || v_dest || ' is filled from queue ' || v_sibling.queue_name
                    || ' already, remove-table first' into ret_code, ret_note;
                return;
            end if;
            if not v_merge_all and v_state is distinct from 'ok' then
                select 405, 'Found multiple sources for table ' || v_dest
                    || ', use merge-all or no-merge to continue' into ret_code, ret_note;
                return;
            end if;
            if not v_sibling.local then
                v_siblings := v_siblings || v_sibling.queue_name;
                update londiste.table_info
                set local = true,
                    merge_state = v_state,
                    custom_snapshot = null,
                    table_attrs = v_attrs,
                    dest_table = nullif(v_dest, table_name)
                where queue_name = v_sibling.queue_name and table_name = v_sibling.table_name;
            end if;
        end loop;
    end if;

    update londiste.table_info
    set local = true,
        merge_state = v_state,
        custom_snapshot = null,
        table_attrs = v_attrs,
        dest_table = nullif(v_dest, v_table)
    where queue_name = i_queue_name and table_name = v_table;
    if v_state is null then
        -- The worker need not check for it.
        perform pg_notify('londiste_tables', left(q, 1000)) from unnest(i_queue_name || v_siblings) q;
    end if;

    if v_combined_type is not null
        and not exists (select from londiste.table_info t
                        where t.queue_name = v_node.combined_queue
                            and t.table_name = v_table and t.local)
    then
        -- The combined queue contains all rows that this node keeps.  Filters and copy modes
        -- belong to the part.
        select a.ret_code, a.ret_note into ret_code, ret_note
        from londiste.local_add_table(v_node.combined_queue, v_table,
            array(select w
                  from unnest(v_words) with ordinality as u (w, nr)
                  where w not in ('merge_all', 'no_merge', 'skip_truncate')
                  order by nr),
            null::text, i_dest_table) a;
        if ret_code >= 400 then
            return;
        end if;
    end if;

    if v_virtual or v_no_triggers then
        select 200, 'Table added with no triggers: ' || v_table into ret_code, ret_note;
        return;
    end if;
    foreach v_queue in array i_queue_name || v_siblings loop
        select * into v_trigger
        from londiste.create_trigger(v_queue, v_table, v_words, v_dest, v_node.node_type);
        if v_trigger.ret_code = 201 then
            select 200, 'Table added with no triggers: ' || v_table into ret_code, ret_note;
            return;
        elsif v_trigger.ret_code <> 200 then
            select v_trigger.ret_code, 'Trigger creation failed for table ' || v_dest || ': '
                || v_trigger.ret_note into ret_code, ret_note;
            return;
        end if;
    end loop;

    -- A row trigger that fires earlier can change the row, or log its own changes first.
    select min(t.tgname::text collate "C") into v_first
    from pg_trigger t
    where t.tgrelid = londiste.find_table_oid(v_dest)
        and t.tgconstrindid = 0
        and t.tgtype & 1 = 1
        and t.tgname < v_trigger.trigger_name::name
        and not londiste.is_replica_func(t.tgfoid);
    if v_first is not null then
        select 301, 'Table added: ' || v_table || ', but londiste trigger is not first: '
            || v_first into ret_code, ret_note;
        return;
    end if;
    select 200, 'Table added: ' || v_table into ret_code, ret_note;
end;
$$;

create or replace function londiste.local_add_table(
    i_queue_name text,
    i_table_name text,
    i_trg_args text[],
    i_table_attrs text,
    out ret_code int4,
    out ret_note text)
returns record
language sql
set search_path = pg_catalog, pg_temp
as $$
    /* Replicates a table that has the same name in the events and in this database. */
    select a.ret_code, a.ret_note
    from londiste.local_add_table(i_queue_name, i_table_name, i_trg_args, i_table_attrs, null::text) a;
$$;

create or replace function londiste.local_add_table(
    i_queue_name text,
    i_table_name text,
    i_trg_args text[],
    out ret_code int4,
    out ret_note text)
returns record
language sql
set search_path = pg_catalog, pg_temp
as $$
    /* Replicates a table without attributes. */
    select a.ret_code, a.ret_note
    from londiste.local_add_table(i_queue_name, i_table_name, i_trg_args, null::text, null::text) a;
$$;

create or replace function londiste.local_add_table(
    i_queue_name text,
    i_table_name text,
    out ret_code int4,
    out ret_note text)
returns record
language sql
set search_path = pg_catalog, pg_temp
as $$
    /* Replicates a table with default options. */
    select a.ret_code, a.ret_note
    from londiste.local_add_table(i_queue_name, i_table_name, null::text[], null::text, null::text) a;
$$;
