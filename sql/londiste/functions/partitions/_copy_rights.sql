create or replace function londiste._copy_rights(i_from oid, i_to oid)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Copies owner, grants and row security of a table to its partition.
 *
 * The policies stay with the parent, so that no role can bypass them by reading the partition.
 */
declare
    v_to text := londiste._qualified_name(i_to);
    v_parent pg_class;
    v_right record;
begin
    select * into v_parent from pg_class c where c.oid = i_from;
    for v_right in
        select a.grantee, a.privilege_type, a.is_grantable, null::name as attname
        from aclexplode(v_parent.relacl) a
        where a.grantee <> v_parent.relowner
        union all
        select x.grantee, x.privilege_type, x.is_grantable, a.attname
        from pg_attribute a cross join lateral aclexplode(a.attacl) x
        where a.attrelid = i_from and a.attnum > 0 and not a.attisdropped
    loop
        execute format('grant %s%s on %s to %s%s',
            v_right.privilege_type,
            case when v_right.attname is null then '' else format(' (%I)', v_right.attname) end,
            v_to,
            case v_right.grantee when 0 then 'public' else v_right.grantee::regrole::text end,
            case when v_right.is_grantable then ' with grant option' else '' end);
    end loop;
    if v_parent.relrowsecurity then
        execute format('alter table %s enable row level security', v_to);
    end if;
    if v_parent.relowner <> (select c.relowner from pg_class c where c.oid = i_to) then
        execute format('alter table %s owner to %s', v_to, v_parent.relowner::regrole);
    end if;
end;
$$;
