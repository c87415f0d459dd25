-- Sessions of our ticker in this database, and the server's clock, which may differ from ours.
-- Names of applications are visible to everybody, and everybody can choose one: only sessions of roles
-- that may tick count.
select
    count(*) filter (
        where a.application_name like 'londiste ticker%ticks%'
            and pg_catalog.has_function_privilege(
                a.usesysid, pg_catalog.to_regprocedure('pgq.ticker()'), 'EXECUTE')
    ) as tickers,
    extract(epoch from pg_catalog.clock_timestamp())::float8 as now
from pg_catalog.pg_stat_activity a
where a.datname = current_database();
