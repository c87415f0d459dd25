-- Queues of this database that still have consumers, and how many.
select q.queue_name, pg_catalog.count(*) as consumers
from pgq.queue as q
join pgq.subscription as s on s.sub_queue = q.queue_id
group by q.queue_name
order by q.queue_name;
