-- Creates the ticks that are due: their number, and the answer of seconds_until_due.
select
    pgq.ticker() as ticks,
    case
        when due = '-infinity' then 0
        when isfinite(due) then extract(epoch from due - clock_timestamp())::float8
    end as seconds
from pgq.next_due() as d (due)
