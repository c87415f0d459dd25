create or replace function pgq.count_bulk_events(
    i_queue_name text,
    i_events int8,
    i_own_ids boolean default false
)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Counts events that the caller writes to current_event_table() directly.
 *
 * Returns the number of further events that this transaction may write; null means no limit.
 *
 * The limit of events per transaction includes them.  Above the limit the function raises LD102, as
 * insert_event() does.  Call it with 0 events to check the limit before writing.
 *
 * i_events -- number of events written, 0 or more.
 * i_own_ids -- true: the events already have ids.  The function then consumes as many ids of the
 *     queue's sequence, so that the ticker notices the new events.  Default: false.
 */
declare
    v_queue pgq.queue;
    v_count text;
begin
    if i_events is null or i_events < 0 then
        raise exception using
            errcode = 'LD005',
            message = format('bad number of events: %s', coalesce(i_events::text, 'NULL')),
            hint = 'use a number from 0 up';
    end if;
    v_queue := pgq._open_for_insert(i_queue_name, i_events);
    if i_own_ids then
        perform count(nextval(v_queue.queue_event_seq)) from generate_series(1, i_events);
    end if;
    if v_queue.queue_per_tx_limit is null then
        return null;
    end if;
    v_count := current_setting('pgq.events_in_tx_' || v_queue.queue_id, true);
    return v_queue.queue_per_tx_limit - case
        when split_part(v_count, ':', 1) = txid_current()::text
            then split_part(v_count, ':', 2)::int8
        else 0
    end;
end;
$$;
