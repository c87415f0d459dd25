create or replace function londiste._same_keys(i_new refcursor, i_old refcursor)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether two open cursors of _fetch_lines() give the same keys in the same order.
 *
 * No rows are paired by that: with the same keys in any order an UPDATE has changed none.  In
 * another order it is only treated as if it had.
 */
declare
    v_same bool;
begin
    loop
        select bool_and(f.new_key is not distinct from f.old_key) into v_same
        from rows from (londiste._fetch_lines(i_new, 500), londiste._fetch_lines(i_old, 500))
            as f (new_line, new_key, old_line, old_key);
        if v_same is null then
            return true;
        elsif not v_same then
            return false;
        end if;
    end loop;
end;
$$;
