create or replace function pgq._is_at_home()
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether ticks and events of this database contain transaction ids of this server.
 *
 * True for a database that was created on this server, copied file by file (pg_upgrade, a standby, a
 * template), or dumped and restored within one server: there the ids continue.  False for a dump of
 * another server, and when no server is stored.
 */
declare
    v_noted int8;
    v_now int8;
begin
    select case when row_xmin = xmin::text::int8 then -1 else system_identifier end
    into v_noted
    from pgq.cluster_identity;
    if v_noted = -1 then
        return true;
    end if;
    -- Reads a file of the server, so only where the cheap check did not settle it.
    begin
        select system_identifier into v_now from pg_control_system();
    exception
        when insufficient_privilege then
            return false;
    end;
    return coalesce(v_noted = v_now, false);
end;
$$;
