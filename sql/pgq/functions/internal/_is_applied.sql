create or replace function pgq._is_applied(i_type text)
returns boolean
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether replication applies events of this type: row changes, scripts, messages of the cascade.
 *
 * Says so of more than the decoder of any version accepts: other letter case, white space around,
 * no type.  londiste/changes/decode.py has the exact forms.
 */
begin
    return coalesce(
        btrim(i_type, E' \t\n\r\f\v') ~* '^([IUDR]$|[IUD]:|[{[]|EXECUTE|TRUNCATE|pgq[.]|londiste[.])',
        true
    );
end;
$$;
