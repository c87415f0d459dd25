-- Whether a queue is a node of a cascade.  %(queue)s -- its name.  PgQ of other installers: false.
select coalesce((pg_catalog.to_jsonb(q) ->> 'queue_replicated')::boolean, false)
from pgq.queue as q
where q.queue_name = %(queue)s;
