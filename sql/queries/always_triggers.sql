-- Statements after which the capture of a table fires for applications only.
-- %(queue)s the queue, %(table)s the table's name here.
select pg_catalog.format('alter table %%I.%%I enable trigger %%I', n.nspname, c.relname, t.name)
from londiste._event_triggers(%(queue)s, londiste.find_table_oid(%(table)s)) as t
    join pg_catalog.pg_class as c on c.oid = t.relation
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where t.enabled = 'A'
order by 1
