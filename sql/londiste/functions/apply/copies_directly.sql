create or replace function londiste.copies_directly(i_table oid)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether COPY FROM STDIN may write a table with the rights of the caller.
 *
 * True when the table is not written with the rights of its owner, or when it runs no code of
 * its owner.  COPY from a client cannot run as another role.  The function locks the table and its
 * schema, so that result and name stay valid until the transaction ends.
 */
declare
    v_class pg_class;
    v_table text;
begin
    select * into v_class from pg_class c where c.oid = i_table;
    if v_class.oid is null or not londiste._is_of_others(v_class.relowner) then
        return true;
    end if;
    if v_class.relkind <> 'r' then
        return false;
    end if;
    select format('%I.%I', n.nspname, v_class.relname) into v_table
    from pg_namespace n where n.oid = v_class.relnamespace;
    execute format('lock table only %s in row exclusive mode', v_table);
    if (select r.rolsuper from pg_roles r where r.rolname = current_user) then
        perform 1 from pg_namespace n where n.oid = v_class.relnamespace for key share;
    end if;
    return to_regclass(v_table) = i_table and not londiste._has_code(i_table);
end;
$$;
