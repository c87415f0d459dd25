-- An interval as PostgreSQL writes it.  Parameter: its text.
select %s::text::interval
