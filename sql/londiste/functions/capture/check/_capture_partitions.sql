create or replace function londiste._capture_partitions(
    i_relid oid,
    i_function text,
    i_args text[],
    i_wait bool)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Creates the TRUNCATE triggers on partitions of a captured table that have none.
 *
 * Returns their number.
 *
 * i_function -- the quoted name of the capture's function.
 * i_wait -- true: wait for sessions that use a partition.  false: skip such a partition for now, and
 *     a partition of another owner.
 *
 * The server gives a new partition the triggers for rows, and no others.
 */
declare
    v_name text := londiste.trigger_name(i_args[1], 'partition');
    v_always bool := 'truncate' = any (londiste._always_kinds(i_args[1], i_relid));
    v_partition record;
    v_count int4 := 0;
begin
    for v_partition in
        select c.oid::regclass as relation
        from pg_partition_tree(i_relid) as p
            join pg_class as c on c.oid = p.relid
        where p.isleaf
            and p.relid <> i_relid
            and c.relkind = 'r'
            and (i_wait or pg_has_role(c.relowner, 'usage'))
            and not exists (
                select from pg_trigger as t
                where t.tgrelid = c.oid
                    and t.tgname = v_name
                    -- A partition that was detached from another table of the queue has kept its trigger.
                    and londiste._trigger_args(t.tgargs) = i_args)
        order by c.oid
    loop
        begin
            if not i_wait then
                execute format('lock table only %s in share row exclusive mode nowait', v_partition.relation);
            end if;
            execute format('create or replace trigger %I before truncate on %s for each statement execute function %s(%s)',
                v_name, v_partition.relation, i_function,
                (select string_agg(quote_literal(a.value), ', ' order by a.place)
                from unnest(i_args) with ordinality as a (value, place)));
            if v_always then
                execute format('alter table %s enable always trigger %I', v_partition.relation, v_name);
            end if;
            v_count := v_count + 1;
        exception when lock_not_available then
            -- With NOWAIT only: the next maintenance tries again.
            if i_wait then
                raise;
            end if;
        end;
    end loop;
    return v_count;
end;
$$;
