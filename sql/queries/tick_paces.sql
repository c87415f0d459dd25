-- Queues that tick here: name, ticker_max_lag in seconds, newest tick, and where their consumers
-- stand.  Watermarks, whose names begin with a dot, are moved when there is time: they hurry nobody.
select
    q.queue_name,
    extract(epoch from q.queue_ticker_max_lag)::float8,
    (
        select t.tick_id
        from pgq.tick t
        where t.tick_queue = q.queue_id
        order by t.tick_id desc
        limit 1
    ),
    coalesce(
        (
            select json_object_agg(c.co_name, s.sub_last_tick)
            from pgq.subscription s
            join pgq.consumer c on c.co_id = s.sub_consumer
            where s.sub_queue = q.queue_id and s.sub_last_tick is not null and c.co_name !~ '^\.'
        ),
        '{}'
    )
from pgq.queue q
where not q.queue_external_ticker and not q.queue_ticker_paused
