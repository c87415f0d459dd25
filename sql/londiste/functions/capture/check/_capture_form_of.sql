create or replace function londiste._capture_form_of(
    i_relid oid,
    i_args text[],
    i_owner oid,
    out form text,
    out reason text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the capture mode of a table whose capture function i_owner owns, and why.
 */
declare
    v_options record := londiste._capture_options(i_args[3:]);
    v_key text[] := londiste._capture_key_columns(i_relid, i_args);
begin
    select f.form, f.reason into form, reason
    from pg_class as c
        cross join lateral londiste._capture_form(
            v_options.form,
            v_key <> '{}',
            (
                select coalesce(bool_and(k.type_id = any ('{bool,int2,int4,int8,oid,uuid,text,varchar,'
                    'bpchar,numeric,name,inet,cidr,macaddr,macaddr8,bit,varbit,date,timestamp,'
                    'timestamptz}'::regtype[]::oid[])), true)
                from londiste._row_columns(i_relid) as k
                where k.name = any (v_key)),
            c.relkind,
            c.relispartition,
            exists (select from pg_inherits as i where i.inhrelid = c.oid)
                or exists (select from pg_inherits as i where i.inhparent = c.oid),
            not c.relrowsecurity
                or not c.relforcerowsecurity and pg_has_role(i_owner, c.relowner, 'usage')
                or (select r.rolbypassrls or r.rolsuper from pg_roles as r where r.oid = i_owner),
            londiste._capture_cascades(i_relid),
            londiste._capture_always_state(i_relid, v_key),
            v_options) as f
    where c.oid = i_relid;
end;
$$;
