-- Consumers of queues elsewhere whose position is kept in this database.
select p.consumer_id
from (
    select t.consumer_id from pgq_ext.completed_tick as t
    union
    select b.consumer_id from pgq_ext.completed_batch as b
    union
    select e.consumer_id from pgq_ext.completed_event as e
) as p
order by p.consumer_id;
