create or replace function pgq.tick_event_sql(
    i_queue_name text,
    i_from_tick int8,
    i_to_tick int8
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the query that reads the events between two ticks of a queue, in the order of their ids.
 *
 * For readers that store their position themselves.  The query returns the events that a consumer
 * gets between these ticks, without retries.
 *
 * The result is complete, or the function raises an error: LD107 when rotation has removed one of
 * the ticks or events after it; LD105 when a tick does not exist yet; LD201 in a restored database
 * that was not rebased.
 *
 * Rotation waits for registered consumers only.  To keep the events, register a consumer and move
 * it only to ticks that the reader has finished.
 */
declare
    v_queue pgq.queue;
    v_from txid_snapshot;
    v_to txid_snapshot;
begin
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    if not found then
        perform pgq._raise_no_queue('No such queue', i_queue_name);
    end if;
    if i_from_tick is null or i_to_tick is null or i_from_tick > i_to_tick then
        raise exception using
            errcode = 'LD005',
            message = format('invalid range of ticks: %s to %s',
                             coalesce(i_from_tick::text, 'NULL'),
                             coalesce(i_to_tick::text, 'NULL')),
            hint = 'pass the earlier tick first';
    end if;
    perform pgq._require_home();
    v_from := pgq._tick_snapshot(v_queue, i_from_tick);
    v_to := pgq._tick_snapshot(v_queue, i_to_tick);
    if txid_snapshot_xmin(v_from) < v_queue.queue_history_txid then
        raise exception using
            errcode = 'LD107',
            message = format('events after tick %s of queue %s are gone',
                             i_from_tick, i_queue_name),
            detail = 'rotation has truncated an event table with events after this tick',
            hint = 'start at a later tick, and bring the reader''s data to that point; a '
                'registered consumer keeps the events of its reader';
    end if;
    return pgq._snapshot_event_sql(v_queue.queue_id, v_from, v_to, 'ev_owner is null');
end;
$$;
