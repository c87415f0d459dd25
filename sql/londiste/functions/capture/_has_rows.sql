create or replace function londiste._has_rows(i_relid oid, i_older xid)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether a table has rows, with i_older only rows that are older than that transaction.
 *
 * True as well when the caller may not look: who is asked to compare finds out.
 */
declare
    v_found bool;
begin
    if i_older is null then
        execute format('select exists (select from only %s)', i_relid::regclass) into v_found;
    else
        execute format('select exists (select from only %s as r where age(r.xmin) > age($1))', i_relid::regclass)
        into v_found
        using i_older;
    end if;
    return v_found;
exception
    when insufficient_privilege then
        return true;
end;
$$;
