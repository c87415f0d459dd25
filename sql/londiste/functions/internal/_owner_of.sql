create or replace function londiste._owner_of(i_class_id oid, i_object_id oid)
returns oid
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the owner of an object of this database.
 *
 * Objects of the first superuser, whose oid is 10, have no entry in pg_shdepend.
 */
select coalesce((
    select d.refobjid
    from pg_shdepend as d
        join pg_database as b on b.oid = d.dbid
    where b.datname = current_database()
        and d.classid = i_class_id
        and d.objid = i_object_id
        and d.objsubid = 0
        and d.refclassid = 'pg_authid'::regclass
        and d.deptype = 'o'), 10::oid);
$$;
