create or replace function londiste._capture_form_of(
    i_relid oid,
    i_args text[],
    i_owner oid,
    out form text,
    out reason text)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the capture mode of a table whose capture function i_owner owns, and why.
 */
select f.form, f.reason
from pg_class as c
    cross join lateral (
        select londiste._capture_options(i_args[3:]), londiste._capture_key_columns(i_relid, i_args)
    ) as o (options, key)
    cross join lateral londiste._capture_form(
        (o.options).form,
        o.key <> '{}',
        (
            select coalesce(bool_and(k.type_id = any ('{bool,int2,int4,int8,oid,uuid,text,varchar,'
                'bpchar,numeric,name,inet,cidr,macaddr,macaddr8,bit,varbit,date,timestamp,'
                'timestamptz}'::regtype[]::oid[])), true)
            from londiste._row_columns(i_relid) as k
            where k.name = any (o.key)),
        c.relkind,
        c.relispartition,
        exists (select from pg_inherits as i where c.oid in (i.inhrelid, i.inhparent)),
        not c.relrowsecurity
            or not c.relforcerowsecurity and pg_has_role(i_owner, c.relowner, 'usage')
            or (select r.rolbypassrls or r.rolsuper from pg_roles as r where r.oid = i_owner),
        londiste._capture_cascades(i_relid),
        londiste._capture_always_state(i_relid, o.key),
        o.options) as f
where c.oid = i_relid;
$$;
