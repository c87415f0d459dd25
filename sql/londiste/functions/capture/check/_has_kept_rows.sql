create or replace function londiste._has_kept_rows(i_relid oid)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
/*
 * Returns whether a table that was rewritten has kept its rows, as by VACUUM FULL and CLUSTER; false is unknown.
 *
 * It has as many rows as were inserted and not deleted since it was created.  TRUNCATE also forgets their number
 * in pg_class.  Without statistics, as after a crash, nothing is known.
 */
declare
    v_expected int8;
    v_rows int8;
begin
    select pg_stat_get_tuples_inserted(c.oid) - pg_stat_get_tuples_deleted(c.oid) into v_expected
    from pg_class as c
    where c.oid = i_relid
        and c.reltuples >= 0
        and pg_stat_get_tuples_inserted(c.oid) > 0;
    if v_expected is null
        or not pg_has_role((select c.relowner from pg_class as c where c.oid = i_relid), current_user, 'usage')
            and londiste._reads_run_code(i_relid)
    then
        return false;
    end if;
    perform londiste._refuse_views();
    begin
        execute format('select count(*) from only %s', i_relid::regclass) into v_rows;
        -- No lock remains.
        raise sqlstate 'LD000';
    exception
        when sqlstate 'LD000' or insufficient_privilege then
            return coalesce(v_rows = v_expected, false);
    end;
end;
$$;
