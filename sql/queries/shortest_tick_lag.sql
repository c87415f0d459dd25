-- The shortest ticker_max_lag, in seconds, of the queues that tick here; null when there is none.
select extract(epoch from min(queue_ticker_max_lag))::float8
from pgq.queue
where not queue_external_ticker and not queue_ticker_paused
