create or replace function pgq._insert_events(
    queue_name text,
    ev_types text[],
    ev_datas text[],
    ev_extra1s text[],
    ev_extra2s text[],
    ev_extra3s text[],
    ev_extra4s text[]
)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Runs pgq.insert_events() for roles that may write to the event tables.
 *
 * These are administrators, roles of pgq.grant_produce(), and _produce_events().
 *
 * The function inserts all events or none.  An array of extra fields is null or as long as the others.
 * The limit of events per transaction counts each of them.
 */
declare
    v_queue pgq.queue;
    v_count int8 := cardinality(ev_types);
    v_wrong text;
begin
    if ev_types is null or ev_datas is null then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            hint = 'pass an array of types and an array of data';
    end if;
    select string_agg(format('%s has %s', f.name, f.length), ', ')
    into v_wrong
    from (values
        ('ev_datas', cardinality(ev_datas)),
        ('ev_extra1s', cardinality(ev_extra1s)),
        ('ev_extra2s', cardinality(ev_extra2s)),
        ('ev_extra3s', cardinality(ev_extra3s)),
        ('ev_extra4s', cardinality(ev_extra4s))
    ) as f (name, length)
    where f.length <> v_count;
    if v_wrong is not null then
        raise exception using
            errcode = 'LD005',
            message = 'arrays of different lengths',
            detail = format('ev_types has %s elements, %s', v_count, v_wrong),
            hint = 'pass one element per event in each array, null where it has no value';
    end if;

    v_queue := pgq._open_for_insert(queue_name, v_count);
    execute format(
        'insert into %s (ev_id, ev_time, ev_txid, ev_type, ev_data,'
        '   ev_extra1, ev_extra2, ev_extra3, ev_extra4)'
        ' select nextval($1), now(), $2, u.t, u.d, u.e1, u.e2, u.e3, u.e4'
        ' from unnest($3, $4, $5, $6, $7, $8) as u (t, d, e1, e2, e3, e4)',
        pgq.quote_fqname(v_queue.queue_data_pfx || '_' || v_queue.queue_cur_table)
    )
    using
        v_queue.queue_event_seq, txid_current(),
        ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s;
    return v_count;
end;
$$;
