create or replace function pgq._remember_cluster()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores that the transaction ids of this database's queues are those of this server.
 *
 * The row carries its own xmin.  A restored dump writes the row again with another xmin; pg_upgrade and
 * every copy of the files keep it.  Both commands below run in the same subtransaction, so that
 * the row is right inside a savepoint, too.
 */
declare
    v_identifier int8;
begin
    begin
        select system_identifier into v_identifier from pg_control_system();
    exception
        when insufficient_privilege then
            v_identifier := null;
    end;
    delete from pgq.cluster_identity;
    insert into pgq.cluster_identity (row_xmin, system_identifier) values (0, v_identifier);
    update pgq.cluster_identity set row_xmin = (
        select xmin::text::int8 from pgq.cluster_identity
    );
end;
$$;

-- Once: an existing row may be of another server, and must show that.
do $$
begin
    if not exists (select 1 from pgq.cluster_identity) then
        perform pgq._remember_cluster();
    end if;
end;
$$;
