/*
 * Lowers lock_timeout to %(most)s milliseconds until the transaction ends; returns what it was.
 * Runs with the search path of a script, so operators have their schema.
 */
select s.before, pg_catalog.set_config(
    'lock_timeout',
    least(
        -- 0 is no limit.
        case when s.before operator(pg_catalog.<>) '0' then
            pg_catalog.date_part('epoch', s.before::pg_catalog.interval)
                operator(pg_catalog.*) 1000::pg_catalog.float8
        end,
        %(most)s
    )::pg_catalog.int4::pg_catalog.text,
    true)
from pg_catalog.current_setting('lock_timeout') as s (before)
