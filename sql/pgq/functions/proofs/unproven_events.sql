create or replace function pgq.unproven_events(
    i_queue_name text,
    i_event_ids int8[],
    i_txids int8[],
    i_types text[]
)
returns setof int8
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * The ids of those among some control events that nobody entitled has written, as far as this
 * database knows: subscribers do not obey them.  None in a queue that does not keep proofs
 * (queue_proven_from).
 *
 * i_txids, i_types -- of the events, as a batch has them: a proof is not valid for another event
 *     that was given the same id.
 */
    select u.id
    from pgq.queue q
    cross join unnest(i_event_ids, i_txids, i_types) as u (id, txid, type)
    where q.queue_name = i_queue_name
        and u.txid >= q.queue_proven_from
        and not exists (
            select
            from pgq.control_event c
            where c.ev_queue = q.queue_id
                and c.ev_id = u.id
                and c.ev_txid = u.txid
                and c.ev_type = u.type
        );
$$;
