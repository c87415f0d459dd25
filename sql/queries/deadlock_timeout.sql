-- Seconds after which a session that waits looks for a deadlock; one of an application may differ.
select pg_catalog.date_part('epoch', pg_catalog.current_setting('deadlock_timeout')::pg_catalog.interval)
