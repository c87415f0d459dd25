-- Queries of Spark whose last epoch is noted in this database, and jobs that were done.
select
    s.sink_id,
    s.target,
    s.epoch,
    coalesce(s.query_id, '') = '' as is_job
from pgq_ext.sink as s
where s.epoch is not null
order by s.sink_id;
