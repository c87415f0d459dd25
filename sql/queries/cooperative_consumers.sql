-- The cooperative consumers that share the position of a consumer, without its name in front.
-- %(queue)s, %(consumer)s
select pg_catalog.substr(c.co_name, pg_catalog.length(main.co_name) + 2)
from pgq.queue q
join pgq.consumer main on main.co_name = %(consumer)s
join pgq.subscription s on s.sub_queue = q.queue_id and s.sub_consumer = main.co_id
join pgq.subscription o
    on o.sub_queue = s.sub_queue and o.sub_id = s.sub_id and o.sub_consumer <> s.sub_consumer
join pgq.consumer c on c.co_id = o.sub_consumer
where q.queue_name = %(queue)s
    and pg_catalog.starts_with(c.co_name, main.co_name || '.')
order by c.co_name;
