-- The columns that the predicate of an index of a temporary table reads.  Parameter: its name.
select a.attname
from pg_catalog.pg_class as i
    join pg_catalog.pg_index as x on x.indexrelid = i.oid
    join pg_catalog.pg_depend as d
        on d.classid = 'pg_catalog.pg_class'::regclass
        and d.objid = i.oid
        and d.refclassid = 'pg_catalog.pg_class'::regclass
        and d.refobjid = x.indrelid
        and d.refobjsubid > 0
    join pg_catalog.pg_attribute as a
        on a.attrelid = x.indrelid and a.attnum = d.refobjsubid
where i.relname = %s
    and i.relnamespace = pg_catalog.pg_my_temp_schema()
group by a.attname
order by a.attname
