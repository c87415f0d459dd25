create or replace function pgq.unproven_events(
    i_queue_name text,
    i_event_ids int8[],
    i_txids int8[],
    i_types text[]
)
returns setof int8
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
/*
 * Returns the ids of those control events that have no proof in this database.  Subscribers do not
 * follow them.  Returns none for a queue that keeps no proofs (queue_proven_from).
 *
 * i_txids, i_types -- of the events, as a batch has them: a proof is not valid for another event
 *     that was given the same id.
 *
 * Two events with one id, transaction and type are both unproven, because it is unknown which of
 * them is genuine.  A subscriber would notice too late: it follows the first event before it reads
 * the second one in the next block.
 */
declare
    v_queue pgq.queue;
begin
    select * into v_queue
    from pgq.queue
    where queue_name = i_queue_name and queue_proven_from is not null;
    if not found then
        return;
    end if;
    return query execute format(
        'with asked as ('
        '   select u.id, u.txid, u.type'
        '   from unnest($1, $2, $3) as u (id, txid, type)'
        '   where u.txid >= $4),'
        -- Their index is on transactions; one scan for all that are asked about.
        ' twice as materialized ('
        '   select e.ev_id, e.ev_txid, e.ev_type'
        '   from %s e'
        '   where e.ev_txid = any (array(select distinct a.txid from asked a))'
        '       and e.ev_id = any ($1)'
        '   group by e.ev_id, e.ev_txid, e.ev_type'
        '   having count(*) > 1)'
        ' select a.id'
        ' from asked a'
        ' where not exists ('
        '       select'
        '       from pgq.control_event c'
        '       where c.ev_queue = $5 and c.ev_id = a.id and c.ev_txid = a.txid'
        '           and c.ev_type = a.type)'
        '   or exists ('
        '       select'
        '       from twice t'
        '       where t.ev_id = a.id and t.ev_txid = a.txid and t.ev_type = a.type)',
        pgq.quote_fqname(v_queue.queue_data_pfx)
    )
    using i_event_ids, i_txids, i_types, v_queue.queue_proven_from, v_queue.queue_id;
end;
$$;
