-- The text of an interval as PostgreSQL prints it.  Parameter: any notation of it.
select %s::text::interval::text
