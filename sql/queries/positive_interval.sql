-- Whether an interval is longer than none.  Parameter: an interval, as text.
select now() - %s::text::interval < now()
