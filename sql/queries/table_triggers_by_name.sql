-- Triggers of a table that somebody made.  %(relation)s -- its quoted name.
select t.tgname::text, pg_catalog.pg_get_triggerdef(t.oid)
from pg_catalog.pg_trigger t
where t.tgrelid = pg_catalog.to_regclass(%(relation)s)
    and t.tgconstrindid = 0
order by t.tgname;
