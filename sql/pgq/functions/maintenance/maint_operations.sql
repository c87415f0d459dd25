create or replace function pgq.maint_operations(out func_name text, out func_arg text)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the maintenance tasks that are due now, in order.  Run each in its own transaction.
 *
 * func_name -- function to call with func_arg as argument; without argument when func_arg is null.
 *     If its result is a number other than 0, call it again at once.  The names vacuum and vacuum
 *     analyze mean these statements, on the table func_arg.
 *
 * Functions of extra_maint are returned only if they give no other role the rights of the caller
 * (_may_maintain).  Other functions are errors.
 */
begin
    for func_arg in
        select queue_name
        from pgq.queue
        where queue_rotation_period is not null
            and queue_switch_step2 is not null
            and (
                queue_switch_time + queue_rotation_period < now()
                or queue_switch_time > now() + queue_rotation_period
            )
        order by queue_name
    loop
        func_name := 'pgq.maint_rotate_tables_step1';
        return next;
    end loop;

    func_arg := null;
    if func_name is not null
        or exists (select 1 from pgq.queue where queue_switch_step2 is null)
    then
        -- Opens the ways of queues, too.
        func_name := 'pgq.maint_rotate_tables_step2';
        return next;
    elsif exists (select 1 from pgq.queue q where pgq._way(q) <> coalesce(pgq._way_value(q), 0)) then
        func_name := 'pgq.maint_open_ways';
        return next;
    end if;

    if pg_relation_size('pgq.position_0') + pg_relation_size('pgq.position_1') > 1024 * 1024 then
        func_name := 'pgq.maint_positions';
        return next;
    end if;

    for func_name, func_arg in
        select m.name, q.queue_name
        from pgq.queue q
        cross join lateral unnest(q.queue_extra_maint) with ordinality as m (name, nr)
        order by q.queue_name, m.nr
    loop
        if not pgq._may_maintain(func_name) then
            func_name := 'pgq._refuse_maintenance';
        end if;
        return next;
    end loop;

    return query
    select 'pgq.maint_purge_keys', q.queue_name
    from pgq.queue q
    where exists (
        select 1
        from pgq.event_key k
        where k.key_queue = q.queue_id and k.key_time < now() - q.queue_key_retention
    )
    order by q.queue_name;

    return query
    select 'vacuum', t
    from pgq.maint_tables_to_vacuum() as t;

    if pgq._component_has('pgq_node.maint_watermark(text)') then
        return query execute
            'select ''pgq_node.maint_watermark'', queue_name'
            ' from pgq_node.node_info where node_type = ''root'' order by queue_name';
    end if;
    if pgq._component_has('pgq_node.maint_fence(text)') then
        return query execute
            'select ''pgq_node.maint_fence'', q.queue_name'
            ' from pgq_node.node_info n join pgq.queue q on q.queue_name = n.queue_name'
            ' where n.node_type = ''root'' and not q.queue_disable_insert and exists ('
            '   select from pg_trigger t'
            '   where t.tgname = ''pgq_node_closed'' and t.tgrelid in ('
            '       select to_regclass(pgq.quote_fqname(e.name))'
            '       from (select q.queue_data_pfx union all select pgq._event_tables(q)) as e (name)))'
            ' order by q.queue_name';
    end if;
    if pgq._component_has('londiste.root_check_seqs(text)') then
        return query execute
            'select ''londiste.root_check_seqs'', n.queue_name'
            ' from pgq_node.node_info n'
            ' where n.node_type = ''root'' and exists ('
            '   select 1 from londiste.seq_info s where s.queue_name = n.queue_name and s.local)'
            ' order by n.queue_name';
    end if;
    if pgq._component_has('londiste.periodic_maintenance()') then
        func_name := 'londiste.periodic_maintenance';
        func_arg := null;
        return next;
    end if;
end;
$$;
