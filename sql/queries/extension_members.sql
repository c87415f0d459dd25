-- What belongs to the extension %(name)s: kind and identity, as ALTER EXTENSION ... DROP takes them.
-- %(implied)s: the types that another member brings along, rows of a table and arrays, or all else.
select i.type, i.identity
from pg_catalog.pg_depend as d
join pg_catalog.pg_extension as e
    on d.refclassid = 'pg_catalog.pg_extension'::regclass and d.refobjid = e.oid
left join pg_catalog.pg_type as t
    on d.classid = 'pg_catalog.pg_type'::regclass and d.objid = t.oid
left join pg_catalog.pg_class as c on c.oid = t.typrelid
cross join lateral pg_catalog.pg_identify_object(d.classid, d.objid, d.objsubid) as i
where d.deptype = 'e'
    and e.extname = %(name)s
    and coalesce(c.relkind <> 'c' or t.typcategory = 'A', false) = %(implied)s
order by t.typcategory = 'A';
