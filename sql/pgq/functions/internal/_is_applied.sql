create or replace function pgq._is_applied(i_type text)
returns boolean
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether replication applies events of this type.
 *
 * Such are row changes, scripts, and messages of the cascade.  londiste/changes/decode.py has the
 * forms; the decoders of all versions accept exactly these.
 */
begin
    return coalesce(i_type ~ '^([IUDR]$|[IUD]:|[{]|EXECUTE$|TRUNCATE$|pgq[.]|londiste[.])', false);
end;
$$;
