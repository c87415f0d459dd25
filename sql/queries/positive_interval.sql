-- Whether an interval goes back in time.  Parameter: an interval, as text.
select now() - %s::text::interval < now()
