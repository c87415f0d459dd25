-- Seconds until a retried or delayed event is due; null when none waits.
select extract(epoch from pgq.next_due() - clock_timestamp())::float8
