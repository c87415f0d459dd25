-- Which of some tables have no page.  %(oids)s; this transaction holds a lock on each.
select c.oid::int8
from pg_catalog.pg_class c
where c.oid = any (%(oids)s::oid[]) and pg_relation_size(c.oid) = 0
