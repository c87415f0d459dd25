-- The number that the newest event of a queue has, or one that is taken already.
-- %(queue)s -- the queue.
select pgq.seq_getval(q.queue_event_seq) as event_id
from pgq.queue q
where q.queue_name = %(queue)s;
