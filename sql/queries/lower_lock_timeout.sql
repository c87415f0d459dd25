/*
 * Lowers lock_timeout to %(most)s milliseconds until the transaction ends; returns what it was.
 */
select s.before, pg_catalog.set_config(
    'lock_timeout',
    least(
        -- 0 is no limit.
        nullif(pg_catalog.date_part('epoch', s.before::pg_catalog.interval) * 1000, 0),
        %(most)s
    )::pg_catalog.int4::pg_catalog.text,
    true)
from pg_catalog.current_setting('lock_timeout') as s (before)
