-- Inserts an event that is delivered after an interval, by the clock of the server; its id.
select pgq.insert_event_at(
    %(queue)s, pg_catalog.clock_timestamp() + %(delay)s,
    %(type)s, %(data)s, %(extra1)s, %(extra2)s, %(extra3)s, %(extra4)s
)
