create or replace function pgq.upgrade_schema()
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Upgrades tables of an older release to this release.  Returns the number of changes.
 *
 * A second call changes nothing.  londiste install upgrades everything else.
 */
declare
    v_column record;
    v_table text;
    v_index text;
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
            ('queue_key_retention', 'interval not null default ''1 day'''),
            ('queue_packed_events', 'boolean not null default true'),
            ('queue_replicated', 'boolean not null default false'),
            ('queue_proven_from', 'int8')
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

    for v_table in
        select t from pgq.queue q cross join lateral pgq._event_tables(q) as t
    loop
        v_index := split_part(v_table, '.', 2) || '_txid_idx';
        if to_regclass('pgq.' || quote_ident(v_index)) is null then
            execute format(
                'create index %I on %s (ev_txid)', v_index, pgq.quote_fqname(v_table)
            );
            v_count := v_count + 1;
        end if;
    end loop;
    if to_regclass('pgq.rq_retry_idx') is null then
        create index rq_retry_idx on pgq.retry_queue (ev_retry_after);
        v_count := v_count + 1;
    end if;
    return v_count;
end;
$$;
