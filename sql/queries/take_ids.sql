-- The next ids of a queue.
select pg_catalog.nextval(q.queue_event_seq)
from pgq.queue as q
    cross join pg_catalog.generate_series(1, %(count)s::pg_catalog.int4) as g (nr)
where q.queue_name = %(queue)s;
