create or replace function pgq._queue_parameters(
    out nr int8,
    out name text,
    out type text,
    out may_be_null boolean,
    out lowest text,
    out highest text
)
returns setof record
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the parameters of a queue for set_queue_config(), with type and limits.
 */
    select p.nr, p.name, p.type, p.may_be_null, p.lowest, p.highest
    from (values
        (1, 'ticker_max_count', 'int4', false, '1', null),
        (2, 'ticker_max_lag', 'interval', false, '0', '1000 years'),
        (3, 'ticker_idle_period', 'interval', false, '0', '1000 years'),
        (4, 'ticker_paused', 'boolean', false, null, null),
        (5, 'rotation_period', 'interval', false, '0', '1000 years'),
        (6, 'external_ticker', 'boolean', false, null, null),
        (7, 'per_tx_limit', 'int4', true, '1', null),
        (8, 'disable_insert', 'boolean', false, null, null),
        (9, 'ntables', 'int4', false, '2', '100'),
        (10, 'extra_maint', 'text[]', true, null, null),
        (11, 'max_retries', 'int4', true, '0', null),
        (12, 'key_retention', 'interval', false, '1 second', '1000 years'),
        (13, 'packed_events', 'boolean', false, null, null)
    ) as p (nr, name, type, may_be_null, lowest, highest);
$$;
