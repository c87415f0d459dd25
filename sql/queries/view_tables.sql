/*
 * The relations that views of some names read or write, also through other views.
 *
 * %(names)s -- of the views, in any schema.
 * view, name -- the two without their schemas.
 */
with recursive reads (view, oid) as (
    select c.relname, c.oid
    from pg_catalog.pg_class c
    where c.relkind in ('v', 'm')
        and c.relname = any (%(names)s::name[])
        and c.relnamespace not in (
            'pg_catalog'::pg_catalog.regnamespace, 'information_schema'::pg_catalog.regnamespace)
    union
    select reads.view, d.refobjid
    from reads
    join pg_catalog.pg_rewrite w on w.ev_class = reads.oid
    join pg_catalog.pg_depend d
        on d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
        and d.objid = w.oid
        and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
)
select distinct reads.view::text, c.relname::text as name
from reads
join pg_catalog.pg_class c on c.oid = reads.oid
order by 1, 2
