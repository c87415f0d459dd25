create or replace function londiste._trigger_args(i_args bytea)
returns text[]
language plpgsql
stable strict
set search_path = pg_catalog, pg_temp
as $$
/* Returns the arguments in pg_trigger.tgargs, where each one ends with a zero byte. */
declare
    v_rest bytea := i_args;
    v_end int;
    v_args text[] := '{}';
begin
    loop
        v_end := position(decode('00', 'hex') in v_rest);
        exit when v_end = 0;
        v_args := v_args
            || convert_from(substring(v_rest from 1 for v_end - 1), getdatabaseencoding());
        v_rest := substring(v_rest from v_end + 1);
    end loop;
    return v_args;
end;
$$;
