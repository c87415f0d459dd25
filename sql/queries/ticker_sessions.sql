-- Sessions of our ticker in this database, and the server's clock, which may differ from ours.
-- Names of applications are visible to everybody.
select
    count(*) filter (where application_name like 'londiste ticker%ticks%') as tickers,
    extract(epoch from clock_timestamp())::float8 as now
from pg_stat_activity
where datname = current_database();
