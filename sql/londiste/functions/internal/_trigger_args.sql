create or replace function londiste._trigger_args(i_args text[])
returns bytea
language sql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the arguments of a trigger as in pg_trigger.tgargs: each ends with a zero byte. */
    select coalesce(string_agg(convert_to(a.arg, getdatabaseencoding()) || E'\\x00'::bytea, ''::bytea
                               order by a.nr), ''::bytea)
    from unnest(i_args) with ordinality as a (arg, nr);
$$;
