-- All queues of this database.
select q.queue_name
from pgq.queue as q
order by q.queue_name;
