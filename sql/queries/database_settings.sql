-- What belongs to the database of this session: settings of its own and of roles in it, grants in
-- effect except those of the owner, comment.
select d.datname::text as name,
    coalesce((
        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(
            coalesce(r.rolname, ''), pg_catalog.split_part(c, '=', 1),
            pg_catalog.substr(c, pg_catalog.strpos(c, '=') + 1)))
        from pg_catalog.pg_db_role_setting s
        left join pg_catalog.pg_roles r on r.oid = s.setrole,
            pg_catalog.unnest(s.setconfig) c
        where s.setdatabase = d.oid and (s.setrole = 0 or r.oid is not null)), '[]') as settings,
    coalesce((
        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(
            coalesce(r.rolname, ''), x.privilege_type))
        from pg_catalog.aclexplode(coalesce(d.datacl, pg_catalog.acldefault('d', d.datdba))) x
        left join pg_catalog.pg_roles r on r.oid = x.grantee
        where x.grantee <> d.datdba), '[]') as grants,
    coalesce(pg_catalog.shobj_description(d.oid, 'pg_database'), '') as comment
from pg_catalog.pg_database d
where d.datname = pg_catalog.current_database()
