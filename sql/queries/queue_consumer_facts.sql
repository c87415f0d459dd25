-- What there is to know about the consumers of the queues.  %(queue)s -- one queue, or null.
select
    q.queue_name as queue,
    c.co_name as name,
    s.sub_last_tick as last_tick,
    s.sub_batch as batch,
    s.sub_next_tick as next_tick,
    extract(epoch from clock_timestamp() - s.sub_active)::float8 as last_seen,
    extract(epoch from clock_timestamp() - t.tick_time)::float8 as lag,
    txid_snapshot_xmin(t.tick_snapshot) as xmin,
    newest.tick_event_seq - t.tick_event_seq as pending,
    t.tick_event_seq as event_seq,
    count(*) over (partition by s.sub_queue, s.sub_id) > 1 as cooperative,
    s.sub_last_tick is not null and t.tick_id is null as lost
from pgq.queue q
join pgq.subscription s on s.sub_queue = q.queue_id
join pgq.consumer c on c.co_id = s.sub_consumer
left join pgq.tick t on t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
left join lateral (
    select n.tick_event_seq
    from pgq.tick n
    where n.tick_queue = q.queue_id
    order by n.tick_id desc
    limit 1
) as newest on true
where %(queue)s::text is null or q.queue_name = %(queue)s::text
order by q.queue_name, c.co_name;
