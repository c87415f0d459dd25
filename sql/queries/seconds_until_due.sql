-- Seconds until a retried or delayed event is due; null when none waits, or for ever.
select case
    when due = '-infinity' then 0
    when isfinite(due) then extract(epoch from due - clock_timestamp())::float8
end
from pgq.next_due() as d (due)
