do $do$
declare
    v_names text[];
    v_args text[];
    v_again bigint;
begin
    select array_agg(func_name), array_agg(func_arg)
    into v_names, v_args
    from pgq.maint_operations();
    commit;
    for i in 1 .. coalesce(array_length(v_names, 1), 0) loop
        continue when v_names[i] in ('vacuum', 'vacuum analyze');
        for n in 1 .. 1000 loop
            v_again := 0;
            begin
                if v_args[i] is null then
                    execute 'select ' || v_names[i] || '()::text' into v_again;
                else
                    execute 'select ' || v_names[i] || '($1)::text' into v_again using v_args[i];
                end if;
            exception when others then
                -- One that fails stops no other; it comes again in the next round.
                raise warning '%: %', v_names[i], sqlerrm;
            end;
            -- Every operation is a transaction: the second step of a rotation has to come after
            -- the first has committed.
            commit;
            exit when coalesce(v_again, 0) = 0;
        end loop;
    end loop;
end
$do$
