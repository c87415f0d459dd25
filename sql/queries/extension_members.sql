-- What belongs to the extension %(name)s: kind and identity, as ALTER EXTENSION … DROP takes them.
select i.type, i.identity
from pg_catalog.pg_depend as d
join pg_catalog.pg_extension as e
    on d.refclassid = 'pg_catalog.pg_extension'::regclass and d.refobjid = e.oid
cross join lateral pg_catalog.pg_identify_object(d.classid, d.objid, d.objsubid) as i
where d.deptype = 'e' and e.extname = %(name)s;
