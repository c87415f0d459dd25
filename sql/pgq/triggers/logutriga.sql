create or replace function pgq.logutriga()
returns trigger
language plpgsql
as $$
/*
 * Captures row changes as url-encoded rows, readable without an SQL parser.  A trigger function.
 *
 * ev_type -- I:id,region with the key columns after the colon, U:... and D:... alike, or R (truncate).
 * ev_data -- id=1&region=eu&name=kiwi+%26+lime, all columns, NULL without '='.
 *
 * Trigger arguments: queue name, then any of SKIP, backup, deny, ignore=..., pkey=..., when=...,
 * ev_type=..., ev_data=..., ev_extra1=... to ev_extra4=..., search_path=...
 *
 * The function does not pin search_path, so that expressions use the session's; all names in the
 * function are qualified.  It runs with the rights of the writer.  Expressions in arguments are text
 * of the table's owner, and get no further rights.
 */
begin
    if pg_catalog.current_setting('session_replication_role') operator(pg_catalog.<>) 'local'
        and not pgq._log_change('url', tg_op, tg_when, tg_level, tg_relid,
            tg_table_schema, tg_table_name, tg_argv, new, old,
            pg_catalog.current_setting('search_path'))
    then
        return null;
    end if;
    if tg_op operator(pg_catalog.=) 'DELETE' then
        return old;
    end if;
    return new;
end;
$$;
