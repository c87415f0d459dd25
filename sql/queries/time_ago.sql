-- The time that lies so far back.  Parameter: an interval, as text.
select now() - %s::text::interval
