create or replace function londiste._capture_may_look(i_relid oid)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether this role sees every row of a table, and can read it without running its code.
 *
 * Then a row that it does not find does not exist, and reading runs no code of the table's owner
 * (_reads_run_code).  Called before the statement that reads is planned, because planning runs such
 * code already.
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
        -- A writer to a partition has not locked its parent: it could be renamed, and a view get its name.
        execute format('lock table only %s in access share mode', v_name);
        if i_relid::regclass::text <> v_name then
            return false;
        end if;
    end if;
    return not londiste._reads_run_code(i_relid);
end;
$$;
