-- The names of event tables (event_1) of the queues that are nodes of a cascade.
-- PgQ of other installers, and what is no PgQ: none.
select pg_catalog.split_part(f.queue ->> 'queue_data_pfx', '.', 2)
from pgq.queue as q
cross join lateral (select pg_catalog.to_jsonb(q)) as f (queue)
where (f.queue ->> 'queue_replicated')::boolean
order by 1;
