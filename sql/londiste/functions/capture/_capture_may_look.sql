create or replace function londiste._capture_may_look(i_relid oid)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether this role sees every row of a table, so that a row it does not find is not there, and can
 * look without running code of the table's owner (_reads_run_code).
 *
 * Asked before the statement that looks is planned: planning runs such code already.
 */
declare
    v_name text := i_relid::regclass;
    v_table record;
begin
    if not has_table_privilege(i_relid, 'select') or row_security_active(i_relid) then
        return false;
    end if;
    select c.relkind = 'p' as is_parent,
        pg_has_role(c.relowner, current_user, 'usage') as is_trusted
    into v_table
    from pg_class as c
    where c.oid = i_relid;
    if v_table.is_trusted then
        return true;
    end if;
    if v_table.is_parent then
        -- Who writes to a partition has not locked it: it could get another name, and a view this one.
        execute format('lock table only %s in access share mode', v_name);
        if i_relid::regclass::text <> v_name then
            return false;
        end if;
    end if;
    return not londiste._reads_run_code(i_relid);
end;
$$;
