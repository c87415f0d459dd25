create or replace function londiste._has_rows(i_relid oid, i_older xid)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether a table has rows that are older than a transaction.
 *
 * True as well when the caller may not read the table, or would run code of its owner by reading.  A
 * comparison then shows whether there are rows.  Neither a lock nor a setting remains.
 */
declare
    v_found bool;
begin
    if not pg_has_role((select c.relowner from pg_class as c where c.oid = i_relid), current_user, 'usage')
        and londiste._reads_run_code(i_relid)
    then
        return true;
    end if;
    perform londiste._refuse_views();
    execute format('select exists (select from only %s as r where age(r.xmin) > age($1))', i_relid::regclass)
    into v_found
    using i_older;
    raise sqlstate 'LD000';
exception
    when sqlstate 'LD000' then
        return v_found;
    when insufficient_privilege then
        return true;
end;
$$;
