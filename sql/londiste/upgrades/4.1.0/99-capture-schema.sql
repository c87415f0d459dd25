-- Generated functions live in a schema of their own: in the others nobody but the owner creates anything.
-- One that belongs to somebody else, where this is no superuser, stays; stale_captures() names it.
do $$
declare
    v_function record;
begin
    for v_function in
        select p.oid::regprocedure::text as signature
        from pg_catalog.pg_proc as p
        where p.pronamespace = 'londiste'::regnamespace
            and (pg_catalog.starts_with(p.proname, '_capture_')
                    and p.prorettype = 'trigger'::regtype
                or p.proname ~ '^_key_changed_[0-9a-f]{32}$')
    loop
        begin
            execute pg_catalog.format('alter function %s set schema londiste_capture', v_function.signature);
        exception when insufficient_privilege then
            raise notice 'function % stays in schema londiste: %', v_function.signature, sqlerrm;
        end;
    end loop;
end;
$$;
