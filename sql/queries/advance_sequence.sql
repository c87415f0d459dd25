-- Sets the sequence %(oid)s to %(value)s, unless it has gone farther.  A row tells that it was set.
-- Parameter %(forward)s: 1, or -1 for one that descends.  The condition is NULL for one never used.
select pg_catalog.setval(s.oid, %(value)s::int8)
from (select %(oid)s::int8::oid::regclass as oid) as s
where %(forward)s::numeric * (pg_catalog.pg_sequence_last_value(s.oid) - %(value)s::numeric) < 0
    or pg_catalog.pg_sequence_last_value(s.oid) is null
