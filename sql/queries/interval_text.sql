-- The text of an interval as PostgreSQL prints it.  Parameter: any notation of it.
select %(value)s::text::interval::text
