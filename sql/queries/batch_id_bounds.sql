/*
 * Event ids that the events of a batch, and of the batches after it, are above.
 * %(queue)s, %(from_tick)s, %(to_tick)s, %(batch)s: the open batch and its ticks.
 *
 * above -- for the batch: the id of the newest tick before all of its transactions (0: no such tick
 *     is left).
 * above_next -- for all batches after it: the id of the newest tick before all transactions that are
 *     open at its last tick.  Null: more than a thousand ticks before, or ticks of another database.
 *
 * Ticks of another database, as on a branch, have ids of that database, but snapshots of this one.
 * They do not tell how long the transactions were open there: the events themselves are read.
 *
 * A snapshot does not list transactions from its xmax on, though they may be open.  So a transaction
 * began after a tick if the tick *after* that one has an xmax up to it: hence "offset 1".
 */
with batch as materialized (
    select
        q.queue_id,
        q.queue_external_ticker as is_copy,
        prev.tick_event_seq as before,
        txid_snapshot_xmin(cur.tick_snapshot) as next_oldest,
        coalesce(
            (
                select min(running.txid)
                from txid_snapshot_xip(prev.tick_snapshot) as running (txid)
                where txid_visible_in_snapshot(running.txid, cur.tick_snapshot)
            ),
            txid_snapshot_xmax(prev.tick_snapshot)
        ) as oldest
    from pgq.queue q
    join pgq.tick prev on prev.tick_queue = q.queue_id and prev.tick_id = %(from_tick)s::int8
    join pgq.tick cur on cur.tick_queue = q.queue_id and cur.tick_id = %(to_tick)s::int8
    where q.queue_name = %(queue)s
)
select
    case
        when b.is_copy
            then coalesce(
                (select min(s.first_id) - 1 from pgq.batch_event_spread(%(batch)s::int8, 1024) as s),
                b.before
            )
        else coalesce(
            (
                select t.tick_event_seq
                from pgq.tick t
                where t.tick_queue = b.queue_id
                    and t.tick_id <= %(from_tick)s::int8
                    and txid_snapshot_xmax(t.tick_snapshot) <= b.oldest
                order by t.tick_id desc
                limit 1 offset 1
            ),
            0
        )
    end as above,
    (
        select recent.tick_event_seq
        from (
            select t.tick_id, t.tick_event_seq, t.tick_snapshot
            from pgq.tick t
            where t.tick_queue = b.queue_id and t.tick_id <= %(to_tick)s::int8
            order by t.tick_id desc
            limit 1000
        ) as recent
        where not b.is_copy and txid_snapshot_xmax(recent.tick_snapshot) <= b.next_oldest
        order by recent.tick_id desc
        limit 1 offset 1
    ) as above_next
from batch b
