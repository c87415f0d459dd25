-- What identifies a database of a server and of its standbys, and whether this is a standby.
select
    (select c.system_identifier from pg_catalog.pg_control_system() c) as system_identifier,
    (select d.oid from pg_catalog.pg_database d where d.datname = current_database())::int8
        as database_oid,
    pg_catalog.pg_is_in_recovery() as in_recovery
