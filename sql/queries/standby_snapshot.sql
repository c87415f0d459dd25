/*
 * In a transaction on a standby: the name of its snapshot for other sessions, a bound of what it
 * sees, and the query of the events that are newer than a tick.
 * %(queue)s, %(tick)s
 *
 * Of transactions that run at the primary, a standby's txid_current_snapshot() names none as running.
 * Only its upper bound can be used.
 */
select
    pg_catalog.pg_export_snapshot() as name,
    s.high,
    pgq._snapshot_event_sql(
        q.queue_id,
        t.tick_snapshot,
        format('%%s:%%s:', s.high, s.high)::pg_catalog.txid_snapshot,
        'true'
    ) as query
from pgq.queue q
join pgq.tick t on t.tick_queue = q.queue_id and t.tick_id = %(tick)s::int8
cross join (
    select pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot()) as high
) as s
where q.queue_name = %(queue)s
