create or replace function pgq.upgrade_schema()
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Brings tables made by an older release to the form of this one; returns the number of changes.
 *
 * Changes nothing when called again.  londiste install calls for everything else.
 */
declare
    v_column record;
    v_count int4 := 0;
begin
    for v_column in
        select c.name, c.definition
        from (values
            ('queue_disable_insert', 'boolean not null default false'),
            ('queue_ticker_paused', 'boolean not null default false'),
            ('queue_per_tx_limit', 'int4'),
            ('queue_extra_maint', 'text[]'),
            ('queue_max_retries', 'int4'),
            ('queue_history_txid', 'int8'),
            ('queue_key_retention', 'interval not null default ''1 day''')
        ) as c (name, definition)
        where not exists (
            select 1
            from pg_attribute a
            where a.attrelid = 'pgq.queue'::regclass
                and a.attname = c.name
                and not a.attisdropped
        )
    loop
        execute format('alter table pgq.queue add column %I %s', v_column.name, v_column.definition);
        v_count := v_count + 1;
    end loop;
    return v_count;
end;
$$;
