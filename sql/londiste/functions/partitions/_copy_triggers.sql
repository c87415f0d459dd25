create or replace function londiste._copy_triggers(i_from oid, i_to oid)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Copies the triggers of a table to its partition, enabled as on the parent.
 *
 * The events of replication triggers carry the name of the parent, because no subscriber knows
 * the partition.
 *
 * Where an argument of the capture does not fit the parent, writes of the partition are refused on a branch,
 * as those of the parent will fail when it becomes the root.  A worker goes on there; a root raises LD005.
 */
declare
    v_trigger record;
    v_head text;
    v_definition text;
    v_from text := londiste._qualified_name(i_from);
    v_to text := londiste._qualified_name(i_to);
    v_name text := londiste._plain_name(i_to);
    v_at int;
begin
    for v_trigger in
        select c.args from londiste._captures(null::text, array[i_from]) c
    loop
        -- A parent that had no partition before may be captured by statement, rows of
        -- partitions included, which would then be captured twice.
        begin
            perform londiste.refresh_capture(v_trigger.args[1], londiste._plain_name(i_from));
            perform londiste.create_capture(v_trigger.args[1], v_name, v_trigger.args[3:], v_trigger.args[2]);
            perform londiste.fire_always(v_trigger.args[1], v_name,
                londiste._always_kinds(v_trigger.args[1], i_from));
        exception
            when sqlstate 'LD005' then
                if not exists (
                    select from pgq_node.node_info as n
                    where n.queue_name = v_trigger.args[1] and n.node_type = 'branch')
                then
                    raise;
                end if;
                raise warning using
                    message = format('partition %s is not captured: %s', v_name, sqlerrm),
                    detail = 'writes of it are refused',
                    hint = format('with the argument corrected: select londiste.create_capture(%L, %L, %L, %L)',
                        v_trigger.args[1], v_name, v_trigger.args[3:], v_trigger.args[2]);
                perform londiste.create_capture(v_trigger.args[1], v_name, '{deny}'::text[], null::text);
        end;
    end loop;

    for v_trigger in
        select t.tgname, t.tgenabled, t.tgconstraint, t.tgnargs,
               pg_get_triggerdef(t.oid) as definition,
               p.pronamespace = 'pgq'::regnamespace and t.tgtype & 1 = 1
                   and not ('deny' = any (a.args))
                   and not exists (select from unnest(a.args) x where starts_with(x, 'ev_extra1='))
                   as names_table,
               p.pronamespace = 'pgq'::regnamespace and t.tgtype & 1 = 0
                   and not ('deny' = any (a.args)) as empties
        from pg_trigger t
            join pg_proc p on p.oid = t.tgfoid
            cross join lateral (select londiste._trigger_args(t.tgargs)) a (args)
        where t.tgrelid = i_from
            and t.tgconstrindid = 0
            and not (p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[]) and starts_with(p.proname, '_capture_'))
        order by t.tgname
    loop
        v_head := 'CREATE ' || case when v_trigger.tgconstraint <> 0 then 'CONSTRAINT ' else '' end
            || 'TRIGGER ' || quote_ident(v_trigger.tgname);
        v_at := length(v_head)
            + position(' ON ' || v_from || ' ' in substr(v_trigger.definition, length(v_head) + 1));
        v_definition := substr(v_trigger.definition, 1, v_at - 1) || ' ON ' || v_to || ' '
            || substr(v_trigger.definition, v_at + length(' ON ' || v_from || ' '));
        if v_trigger.names_table then
            v_definition := left(v_definition, -1) || format(', %L)',
                'ev_extra1=' || quote_literal(londiste._plain_name(i_from)));
        elsif v_trigger.empties then
            -- Its event would truncate the table on other nodes, with all other partitions.
            v_definition := left(v_definition, -1) || ', ''deny'')';
        end if;
        execute v_definition;
        if v_trigger.tgenabled <> 'O' then
            execute format('alter table %s %s trigger %I', v_to,
                case v_trigger.tgenabled when 'D' then 'disable' when 'A' then 'enable always'
                    else 'enable replica' end,
                v_trigger.tgname);
        end if;
    end loop;
end;
$$;
