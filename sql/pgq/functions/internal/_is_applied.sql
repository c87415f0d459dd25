create or replace function pgq._is_applied(i_type text)
returns boolean
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether replication applies events of this type: row changes, scripts, messages of the cascade.
 *
 * londiste/changes/decode.py has the forms; the decoders of all versions take them exactly so.
 */
begin
    return coalesce(i_type ~ '^([IUDR]$|[IUD]:|[{]|EXECUTE$|TRUNCATE$|pgq[.]|londiste[.])', false);
end;
$$;
