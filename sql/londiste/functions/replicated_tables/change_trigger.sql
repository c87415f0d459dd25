create or replace function londiste.change_trigger(
    i_queue_name text,
    i_table_name text,
    i_flag text)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Replaces the trigger of a table in a queue, keeping its arguments and operations.
 *
 * i_table_name -- the registered name of the table.
 * i_flag -- C native capture, L logutriga, J jsontriga, Q sqltriga.
 *
 * Returns false when the table already has this trigger.
 *
 * No change is lost: the function locks the table against readers and writers from the start.  Set
 * lock_timeout.  If the new trigger does not accept an argument, the function raises an error and
 * changes nothing.  Raises LD004 for a table without a trigger of the queue.
 */
declare
    v_table text := londiste.make_fqname(i_table_name);
    v_dest text;
    v_old record;
    v_answer record;
begin
    select coalesce(t.dest_table, t.table_name) into v_dest
    from londiste.table_info t
    where t.queue_name = i_queue_name and t.table_name = v_table and t.local;
    if londiste.find_table_oid(v_dest) is not null then
        execute format('lock table %s in access exclusive mode', londiste.quote_fqname(v_dest));
    end if;
    select a.args, t.tgtype::int as bits, case f.proname
            when 'logutriga' then 'L' when 'jsontriga' then 'J' when 'sqltriga' then 'Q' else 'C' end as flag
        into v_old
    from pg_trigger t
        join pg_proc f on f.oid = t.tgfoid
        cross join lateral londiste._trigger_args(t.tgargs) as a (args)
    where t.tgrelid = londiste.find_table_oid(v_dest)
        and t.tgconstrindid = 0
        and t.tgname in (londiste.trigger_name(i_queue_name), left('zzz_' || londiste.trigger_name(i_queue_name), 63))
        and a.args[1] = i_queue_name
        and 'deny' <> all (a.args);
    if not found then
        raise exception using
            errcode = 'LD004',
            message = format('Table %s has no trigger for queue %s', v_table, i_queue_name),
            detail = 'tables of a leaf are not captured',
            hint = format('select * from londiste.create_trigger(%L, %L, %L, %L, %L)',
                i_queue_name, v_table, '{tgflags=' || i_flag || '}', v_dest, 'root');
    end if;
    if v_old.flag = i_flag then
        return false;
    end if;
    if v_old.flag = 'C'
        and 'whole_row' = any (v_old.args[3:])
    then
        raise exception using
            errcode = 'LD005',
            message = format('Table %s has no key and is captured with its whole rows', v_table),
            hint = 'keep the native capture; only it can do that';
    end if;
    select * into v_answer
    from londiste.create_trigger(i_queue_name, v_table,
        array(
            select a.arg
            from unnest(v_old.args) with ordinality as a (arg, nr)
            where case
                when v_old.flag = 'C' then a.nr > 2 and a.arg !~ '^(form|ops)='
                -- The name in events, which create_trigger() adds itself.
                else a.nr > 1 and a.arg <> 'ev_extra1=' || quote_literal(v_table)
            end
            order by a.nr)
        || ('tgflags=' || i_flag || case
            when v_old.flag = 'C' then (londiste._capture_options(v_old.args[3:])).ops
            else case when v_old.bits & 4 > 0 then 'I' else '' end
                || case when v_old.bits & 16 > 0 then 'U' else '' end
                || case when v_old.bits & 8 > 0 then 'D' else '' end
            end),
        v_dest, (select n.node_type from pgq_node.node_info n where n.queue_name = i_queue_name)) as t;
    if v_answer.ret_code >= 400 then
        raise exception using
            errcode = 'LD100',
            message = format('Table %s keeps its trigger: %s', v_table, v_answer.ret_note),
            hint = 'remove the table and add it with the other trigger';
    end if;
    return true;
end;
$$;
