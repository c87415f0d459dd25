create or replace function londiste._capture_every_setting()
returns text[]
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/* Returns all settings on which texts of values can depend, as SET clauses in order. */
select '{"search_path = pg_catalog, pg_temp","DateStyle = ''ISO, YMD''",'
    '"IntervalStyle = postgres","TimeZone = UTC","extra_float_digits = 1","bytea_output = hex",'
    '"xmloption = content","lc_monetary = ''C''","standard_conforming_strings = on",'
    '"quote_all_identifiers = off"}'::text[];
$$;
