-- Every setting of one queue, or of all: the columns of pgq.queue as one JSON object of texts.
-- %(queue)s -- the queue, or null.
select
    q.queue_name,
    (select pg_catalog.jsonb_object_agg(c.key, c.value)
     from pg_catalog.jsonb_each_text(
         pg_catalog.to_jsonb(q)
         || pg_catalog.jsonb_build_object('queue_extra_maint', q.queue_extra_maint::text)
     ) as c) as settings
from pgq.queue q
where %(queue)s::text is null or q.queue_name = %(queue)s::text
order by q.queue_name;
