create or replace function londiste.find_seq_oid(seq text)
returns oid
language sql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the oid of a sequence; NULL when there is none. */
    select londiste.find_rel_oid(seq, 'S');
$$;
