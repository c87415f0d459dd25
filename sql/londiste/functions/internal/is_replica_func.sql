create or replace function londiste.is_replica_func(func_oid oid)
returns boolean
language sql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* Returns whether a function is a trigger function of replication: of pgq, or a generated capture. */
    select count(*) > 0
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where p.oid = func_oid
        and (n.nspname = 'pgq' and p.proname in ('sqltriga', 'logutriga', 'jsontriga')
            or n.nspname in ('londiste', 'londiste_capture') and starts_with(p.proname, '_capture_'));
$$;
