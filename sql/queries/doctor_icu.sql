/*
 * The user's objects that a server without ICU cannot create: collations of ICU, and what uses one.
 *
 * The default collation of the database is none of them: the other database has its own.
 */
with icu as (
    select c.tableoid, c.oid from pg_catalog.pg_collation c where c.collprovider = 'i'
), uses as (
    select c.tableoid as classid, c.oid as objid, 0 as objsubid from icu c
    union
    select d.classid, d.objid, d.objsubid from pg_catalog.pg_depend d
    join icu c on c.tableoid = d.refclassid and c.oid = d.refobjid
    union
    -- Nothing is stored about the use of a collation that every database has.
    select 'pg_catalog.pg_class'::pg_catalog.regclass::oid, a.attrelid, a.attnum::int4
    from pg_catalog.pg_attribute a join icu c on c.oid = a.attcollation
    where a.attnum > 0 and not a.attisdropped
)
select i.type || ' ' || i.identity as name
from uses u
cross join lateral pg_catalog.pg_identify_object(u.classid, u.objid, u.objsubid) i
where u.objid >= 16384 and i.identity !~ '^pg_'
    -- Made with their index and their type.
    and i.type <> 'index column' and i.identity not like '%[]'
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = u.classid and d.objid = u.objid and d.deptype = 'e')
order by i.type <> 'collation', 1
