-- Sessions of our ticker in this database, and the server's clock, which may differ from ours.
-- Names of applications are visible to everybody, and everybody can choose one: only sessions of roles
-- that may tick count.
-- commit_waits -- seconds for which a commit waits for a synchronous standby; null: none does, as far as
-- this role may see.
select
    count(*) filter (
        where a.application_name like 'londiste ticker%ticks%'
            and pg_catalog.has_function_privilege(
                a.usesysid, pg_catalog.to_regprocedure('pgq.ticker()'), 'EXECUTE')
    ) as tickers,
    extract(epoch from pg_catalog.clock_timestamp())::float8 as now,
    extract(epoch from pg_catalog.clock_timestamp()
        - min(a.state_change) filter (where a.wait_event = 'SyncRep'))::float8 as commit_waits
from pg_catalog.pg_stat_activity a
where a.datname = current_database();
