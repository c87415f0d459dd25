-- Events that wait to be delivered again.  %(queue)s, %(consumer)s -- or null; %(count)s -- or null.
select
    q.queue_name as queue,
    c.co_name as consumer,
    r.ev_id as id,
    r.ev_retry_after as after,
    r.ev_retry as retry,
    r.ev_type as type,
    r.ev_data as data,
    r.ev_extra1 as extra1
from pgq.retry_queue r
join pgq.queue q on q.queue_id = r.ev_queue
left join lateral (
    -- Cooperative consumers share the number; the main one was there first.
    select c.co_name
    from pgq.subscription s
    join pgq.consumer c on c.co_id = s.sub_consumer
    where s.sub_queue = r.ev_queue and s.sub_id = r.ev_owner
    order by pg_catalog.length(c.co_name)
    limit 1
) as c on true
where (%(queue)s::text is null or q.queue_name = %(queue)s)
    and (%(consumer)s::text is null or c.co_name = %(consumer)s)
order by r.ev_retry_after, r.ev_id
limit %(count)s::int8;
