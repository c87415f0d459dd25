-- The role of the session, and whether it may write all tables.
select
    r.rolname,
    r.rolsuper or exists (
        select from pg_catalog.pg_roles as g
        where g.rolname = 'pg_write_all_data' and pg_catalog.pg_has_role(r.oid, g.oid, 'usage')
    )
from pg_catalog.pg_roles as r
where r.rolname = current_user;
