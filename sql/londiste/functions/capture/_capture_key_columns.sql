create or replace function londiste._capture_key_columns(i_relid oid, i_args text[])
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * The key that a capture uses: the one of the option pkey=, as long as these columns are there,
 * else the primary key; empty without one.
 */
declare
    v_key text[] := (londiste._capture_options(i_args[3:])).key_columns;
begin
    if v_key <> '{}'
        and v_key <@ array(select c.name from pgq._row_columns(i_relid) as c)
    then
        return v_key;
    end if;
    return pgq._key_columns(i_relid);
end;
$$;
