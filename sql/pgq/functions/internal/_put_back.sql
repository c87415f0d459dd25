create or replace function pgq._put_back(
    i_batch_id int8,
    i_event_ids int8[],
    i_retry_after timestamptz[],
    i_max_retries int4[],
    i_reasons text[],
    out matched int8,
    out retried int8,
    out failed int8
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
/*
 * Moves events of an open batch to the retry queue or to the failed events.  Reads the batch once.
 *
 * i_event_ids -- null: all events of the batch, each with the first element of the other arrays.
 * i_retry_after -- times of their next delivery.
 * i_max_retries -- an event with this number of retries fails; null: never, 0: at once.
 * i_reasons -- why they fail.
 * matched -- number of such events in the batch.
 * retried, failed -- number of events that were moved now.  Events that were moved before stay where
 *     they are.
 *
 * Raises LD106 for an id that the batch does not have, or that two different events of it have.
 */
declare
    v_sub pgq.registration;
    v_missing int8[];
    v_twice int8;
begin
    v_sub := pgq._open_batch(i_batch_id);
    if v_sub.sub_key is not null then
        perform pgq._require_owner(v_sub.sub_queue, v_sub.sub_consumer, 'use');
    end if;
    -- No number of rows is known to the planner, and a nested loop over many outcomes is quadratic.
    -- After a move backwards a batch may contain an event and its retried copies: the last one counts.
    -- What has the same id and is no copy is another event, as a filtered branch writes them.
    execute format(
        'with wanted as materialized ('
        '   select * from unnest($1, $2, $3, $4) as w (id, retry_after, max_retries, reason)),'
        ' found as materialized ('
        '   select b.*, w.retry_after, w.max_retries, w.reason'
        '   from (%s) as b %s),'
        ' ev as materialized ('
        '   select distinct on (ev_id) * from found order by ev_id, ev_retry desc nulls last),'
        ' fate as ('
        '   select ev.*, coalesce(coalesce(ev_retry, 0) >= max_retries, false) as fails'
        '   from ev'
        '   where (select r.ev_id from pgq.retry_queue r'
        '           where r.ev_owner = $5 and r.ev_id = ev.ev_id) is null'
        '       and (select f.ev_id from pgq.failed_queue f'
        '           where f.ev_owner = $5 and f.ev_id = ev.ev_id) is null),'
        ' again as ('
        '   insert into pgq.retry_queue (ev_retry_after, ev_queue, ev_id, ev_time, ev_owner,'
        '       ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)'
        '   select retry_after, $6, ev_id, ev_time, $5, coalesce(ev_retry, 0) + 1, ev_type,'
        '       ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4'
        '   from fate where not fails'
        '   on conflict on constraint rq_pkey do nothing'
        '   returning 1),'
        ' dead as ('
        '   insert into pgq.failed_queue (ev_failed_reason, ev_failed_time, ev_queue, ev_id,'
        '       ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data,'
        '       ev_extra1, ev_extra2, ev_extra3, ev_extra4)'
        '   select reason, clock_timestamp(), $6, ev_id, ev_time, ev_txid, $5, ev_retry,'
        '       ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4'
        '   from fate where fails'
        '   on conflict on constraint fq_pkey do nothing'
        '   returning 1)'
        ' select (select count(*) from ev), (select count(*) from again),'
        '   (select count(*) from dead),'
        '   array(select w.id from wanted w'
        '       where not exists (select 1 from ev where ev.ev_id = w.id) limit 1),'
        '   (select f.ev_id from found f join ev using (ev_id)'
        '       where (f.ev_time, f.ev_type, f.ev_data, f.ev_extra1, f.ev_extra2, f.ev_extra3,'
        '               f.ev_extra4)'
        '           is distinct from (ev.ev_time, ev.ev_type, ev.ev_data, ev.ev_extra1,'
        '               ev.ev_extra2, ev.ev_extra3, ev.ev_extra4)'
        '       limit 1)',
        pgq.batch_event_sql(i_batch_id),
        case when i_event_ids is null then 'cross join wanted w'
            -- The second condition reaches into the query, so that it sorts only these events.
            else 'join wanted w on w.id = b.ev_id where b.ev_id = any ($1)' end
    )
    into matched, retried, failed, v_missing, v_twice
    using i_event_ids, i_retry_after, i_max_retries, i_reasons, v_sub.sub_id, v_sub.sub_queue;
    if v_twice is not null then
        raise exception using
            errcode = 'LD106',
            message = format('event %s cannot be retried or failed: its id is not unique', v_twice),
            detail = format('batch %s has different events with this id, as a filtered branch writes'
                            ' them', i_batch_id),
            hint = 'process the batch without a retry or dead letter of this event; or consume the'
                ' queue of the root, where ids are unique';
    end if;
    if cardinality(v_missing) > 0 and i_event_ids is not null then
        raise exception using
            errcode = 'LD106',
            message = 'event not found',
            detail = format('batch %s has no event %s',
                            i_batch_id, coalesce(v_missing[1]::text, 'NULL')),
            hint = format('select ev_id from pgq.get_batch_events(%s)', i_batch_id);
    end if;
end;
$$;
