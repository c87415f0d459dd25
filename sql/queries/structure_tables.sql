/*
 * Tables, one row each, with what can be made again of the table as a whole.
 *
 * %(oids)s -- the tables.
 * parents: the tables it inherits from, in order; a partition has one.
 */
select
    c.oid::int8 as oid,
    n.nspname::text as schema,
    c.relname::text as name,
    c.relkind::text as kind,
    c.relpersistence::text as persistence,
    pg_catalog.pg_get_userbyid(c.relowner)::text as owner,
    pg_catalog.obj_description(c.oid, 'pg_class') as comment,
    coalesce(c.reloptions, '{}')
        || array(select 'toast.' || o from pg_catalog.unnest(t.reloptions) as o) as options,
    s.spcname::text as tablespace,
    case when m.amname <> 'heap' then m.amname::text end as access_method,
    c.reloftype <> 0 as is_typed,
    c.relreplident::text as replica_identity,
    c.relrowsecurity as row_security,
    c.relforcerowsecurity as force_row_security,
    case when c.relispartition then pg_catalog.pg_get_expr(c.relpartbound, c.oid) end as bound,
    case when c.relkind = 'p' then pg_catalog.pg_get_partkeydef(c.oid) end as partition_key,
    coalesce(
        (
            select pg_catalog.jsonb_agg(
                pg_catalog.jsonb_build_array(pn.nspname, p.relname) order by h.inhseqno)
            from pg_catalog.pg_inherits h
            join pg_catalog.pg_class p on p.oid = h.inhparent
            join pg_catalog.pg_namespace pn on pn.oid = p.relnamespace
            where h.inhrelid = c.oid
        ),
        '[]'
    ) as parents
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_class t on t.oid = c.reltoastrelid
left join pg_catalog.pg_tablespace s on s.oid = c.reltablespace
left join pg_catalog.pg_am m on m.oid = c.relam
where c.oid = any(%(oids)s::oid[])
order by c.oid
