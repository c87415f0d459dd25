create or replace function londiste.split_fqname(
    i_fqname text,
    out schema_part text,
    out name_part text)
returns record
language sql
immutable
strict
set search_path = pg_catalog, pg_temp
as $$
    /*
     * Returns schema and name.
     *
     * Only the first dot separates them; without a dot the schema is public.
     */
    select case when position('.' in i_fqname) > 0
                then substr(i_fqname, 1, position('.' in i_fqname) - 1)
                else 'public' end,
           substr(i_fqname, position('.' in i_fqname) + 1);
$$;
