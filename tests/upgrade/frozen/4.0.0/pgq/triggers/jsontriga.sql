create or replace function pgq.jsontriga()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
set DateStyle = 'ISO, YMD'
set IntervalStyle = postgres
set TimeZone = UTC
set extra_float_digits = 1
set bytea_output = hex
set xmloption = content
set lc_monetary = 'C'
set standard_conforming_strings = on
set quote_all_identifiers = off
as $$
/*
 * Logs row changes as JSON objects.
 *
 * ev_type {"op":"INSERT","table":["public","fruit"],"pkey":["id"]}, ev_data the whole row.
 * Only bool, int2, int4 and int8 are JSON values of their own, all else is a string.
 *
 * Arguments: queue name, then any of SKIP, backup, deny, ignore=…, pkey=…, when=…,
 * ev_type=…, ev_data=…, ev_extra1=… to ev_extra4=…
 *
 * The settings above are pinned because captured text must not depend on the session that
 * happens to write.  Runs with the rights of the writer: expressions in arguments are text
 * of the table's owner, nobody lends them rights.
 */
begin
    if current_setting('session_replication_role') <> 'local'
        and not pgq._log_change('json', tg_op, tg_when, tg_level, tg_relid,
            tg_table_schema, tg_table_name, tg_argv, new, old)
    then
        return null;
    end if;
    if tg_op = 'DELETE' then
        return old;
    end if;
    return new;
end;
$$;
