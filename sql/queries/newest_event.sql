-- The number that the newest event of a queue has, or one that is taken already.
-- %(queue)s -- the queue.
select coalesce(pg_sequence_last_value(q.queue_event_seq::regclass), 0) as event_id
from pgq.queue q
where q.queue_name = %(queue)s;
