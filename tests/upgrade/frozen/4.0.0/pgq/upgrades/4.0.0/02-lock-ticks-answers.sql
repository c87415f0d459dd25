-- lock_ticks() answers the newest tick now.  A function with another result has to be dropped
-- first; its file makes it anew.
do $$
begin
    if exists (
        select 1
        from pg_catalog.pg_proc p
        join pg_catalog.pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'pgq'
            and p.proname = 'lock_ticks'
            and p.prorettype = 'pg_catalog.void'::pg_catalog.regtype
    ) then
        drop function pgq.lock_ticks(text);
    end if;
end;
$$;
