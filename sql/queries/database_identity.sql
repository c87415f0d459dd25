-- Tells databases apart, whatever the names and addresses by which they are reached.
select pg_catalog.current_database(), pg_catalog.pg_postmaster_start_time()
