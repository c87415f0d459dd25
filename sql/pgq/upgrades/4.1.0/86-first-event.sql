-- Ticks before the first event of a queue counted it already.
update pgq.tick t
set tick_event_seq = 0
from pgq.queue q
where q.queue_id = t.tick_queue
    and t.tick_event_seq = 1
    and pg_catalog.pg_sequence_last_value(q.queue_event_seq::regclass) is null;
