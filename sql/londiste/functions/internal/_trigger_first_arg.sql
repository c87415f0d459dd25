create or replace function londiste._trigger_first_arg(i_args bytea)
returns text
language sql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the first argument of a trigger from pg_trigger.tgargs; NULL when it has none. */
    select case when position(E'\\x00'::bytea in i_args) > 0
                then convert_from(
                    substr(i_args, 1, position(E'\\x00'::bytea in i_args) - 1),
                    getdatabaseencoding())
           end;
$$;
