-- The names of event tables (event_1) of the queues that are nodes of a cascade.
-- PgQ of other installers: none.
select pg_catalog.split_part(q.queue_data_pfx, '.', 2)
from pgq.queue as q
where (pg_catalog.to_jsonb(q) ->> 'queue_replicated')::boolean
order by q.queue_id;
