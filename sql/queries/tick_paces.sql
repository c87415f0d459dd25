-- Queues that tick here: name, ticker_max_lag in seconds, newest tick and its last event, and where
-- their consumers stand.  Watermarks, whose names begin with a dot, are moved when there is time:
-- they hurry nobody.
select
    q.queue_name,
    extract(epoch from q.queue_ticker_max_lag)::float8,
    t.tick_id,
    t.tick_event_seq,
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
left join lateral (
    select tick.tick_id, tick.tick_event_seq
    from pgq.tick
    where tick.tick_queue = q.queue_id
    order by tick.tick_id desc
    limit 1
) t on true
where not q.queue_external_ticker and not q.queue_ticker_paused
