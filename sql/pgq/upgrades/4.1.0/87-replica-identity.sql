-- Without a key a publication of all tables would refuse updates and deletes.
alter table pgq.event_template replica identity full;
alter table pgq.control_event replica identity full;

-- A table of events that a transaction is using gets it when it is emptied: nobody waits here.
do $$
declare
    v_table regclass;
begin
    for v_table in
        with recursive tree as (
            select i.inhrelid
            from pg_catalog.pg_inherits i
            where i.inhparent = 'pgq.event_template'::regclass
            union all
            select i.inhrelid
            from tree t
            join pg_catalog.pg_inherits i on i.inhparent = t.inhrelid
        )
        select t.inhrelid::regclass
        from tree t
        join pg_catalog.pg_class c on c.oid = t.inhrelid
        where c.relreplident in ('d', 'n') and pg_catalog.pg_has_role(c.relowner, 'usage')
        order by 1
    loop
        begin
            execute pg_catalog.format('lock table only %s in access exclusive mode nowait', v_table);
            execute pg_catalog.format('alter table %s replica identity full', v_table);
        exception
            when lock_not_available then
                null;
        end;
    end loop;
end;
$$;
