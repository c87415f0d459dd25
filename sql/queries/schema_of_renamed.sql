-- What has become of the former schema of a renamed table: there, renamed or dropped.
-- Parameters: %(old)s, %(new)s, the schemas before and after.
-- A schema of the server, or of another replicated table, is not the former one with a new name.
select case
    when exists (select from pg_catalog.pg_namespace n where n.nspname = %(old)s) then 'there'
    when exists (
        select from pg_catalog.pg_namespace n where n.nspname = %(new)s and n.oid < 16384
    ) or exists (
        select from londiste.table_info t
        where t.local
            and pg_catalog.starts_with(coalesce(t.dest_table, t.table_name), %(new)s || '.')
            and londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) is not null
    ) then 'dropped'
    else 'renamed' end as schema
