create or replace function pgq._put_back(
    i_batch_id int8,
    i_event_id int8,
    i_whole_batch boolean,
    i_retry_after timestamptz,
    i_max_retries int4,
    i_reason text,
    out matched int8,
    out retried int8,
    out failed int8
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Moves one event of an open batch, or all events, to the retry queue or to the failed events.
 *
 * i_whole_batch -- true: all events of the batch.
 * i_retry_after -- time of the next delivery.
 * i_max_retries -- an event with this number of retries fails; null: never, 0: at once.
 * i_reason -- why it fails.
 * matched -- number of such events in the batch.
 * retried, failed -- number of events that were moved now.  Events that were moved before stay where
 *     they are.
 */
declare
    v_sub pgq.registration;
begin
    v_sub := pgq._open_batch(i_batch_id);
    if v_sub.sub_key is not null then
        perform pgq._require_owner(v_sub.sub_queue, v_sub.sub_consumer, 'use');
    end if;
    -- After a move backwards a batch may contain an event and its retried copies: the last one counts.
    execute format(
        'with ev as ('
        '   select distinct on (b.ev_id) b.* from (%s) as b'
        '   where %s'
        '   order by b.ev_id, b.ev_retry desc nulls last),'
        ' fate as ('
        '   select ev.*, coalesce(coalesce(ev.ev_retry, 0) >= $2, false) as fails'
        '   from ev'
        '   where not exists (select 1 from pgq.retry_queue r'
        '           where r.ev_owner = $3 and r.ev_id = ev.ev_id)'
        '       and not exists (select 1 from pgq.failed_queue f'
        '           where f.ev_owner = $3 and f.ev_id = ev.ev_id)),'
        ' again as ('
        '   insert into pgq.retry_queue (ev_retry_after, ev_queue, ev_id, ev_time, ev_owner,'
        '       ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)'
        '   select $4, $5, ev_id, ev_time, $3, coalesce(ev_retry, 0) + 1, ev_type, ev_data,'
        '       ev_extra1, ev_extra2, ev_extra3, ev_extra4'
        '   from fate where not fails'
        '   on conflict on constraint rq_pkey do nothing'
        '   returning 1),'
        ' dead as ('
        '   insert into pgq.failed_queue (ev_failed_reason, ev_failed_time, ev_queue, ev_id,'
        '       ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data,'
        '       ev_extra1, ev_extra2, ev_extra3, ev_extra4)'
        '   select $6, clock_timestamp(), $5, ev_id, ev_time, ev_txid, $3, ev_retry, ev_type,'
        '       ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4'
        '   from fate where fails'
        '   on conflict on constraint fq_pkey do nothing'
        '   returning 1)'
        ' select (select count(*) from ev), (select count(*) from again),'
        '   (select count(*) from dead)',
        pgq.batch_event_sql(i_batch_id),
        case when i_whole_batch then 'true' else 'b.ev_id = $1' end
    )
    into matched, retried, failed
    using i_event_id, i_max_retries, v_sub.sub_id, i_retry_after, v_sub.sub_queue, i_reason;
    if matched = 0 and not i_whole_batch then
        raise exception using
            errcode = 'LD106',
            message = 'event not found',
            detail = format('batch %s has no event %s',
                            i_batch_id, coalesce(i_event_id::text, 'NULL')),
            hint = format('select ev_id from pgq.get_batch_events(%s)', i_batch_id);
    end if;
end;
$$;
