/*
 * Types that columns of tables need and PostgreSQL does not bring, those that a type itself needs
 * before it.
 *
 * %(oids)s -- the tables.
 * kind: e enum, d domain, c composite, r range, b base, p pseudo, t row of a table.
 * extension -- that it belongs to.
 */
with recursive needed (oid, depth) as (
    select distinct a.atttypid, 0
    from pg_catalog.pg_attribute a
    where a.attrelid = any(%(oids)s::oid[])
        and a.attnum > 0
        and not a.attisdropped
    union
    select x.oid, n.depth + 1
    from needed n
    join pg_catalog.pg_type t on t.oid = n.oid
    cross join lateral (
        select t.typbasetype as oid where t.typbasetype <> 0
        union all
        select t.typelem where t.typelem <> 0 and t.typcategory = 'A'
        union all
        select a.atttypid from pg_catalog.pg_attribute a
        where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
        union all
        select r.rngsubtype from pg_catalog.pg_range r where r.rngtypid = t.oid
        union all
        select r.rngtypid from pg_catalog.pg_range r
        where pg_catalog.to_jsonb(r) ->> 'rngmultitypid' = t.oid::text
    ) x
    where n.depth < 50
)
select
    t.oid::int8 as oid,
    n.nspname::text as schema,
    t.typname::text as name,
    case when t.typtype = 'c' and rc.relkind <> 'c' then 't' else t.typtype::text end as kind,
    pg_catalog.pg_get_userbyid(t.typowner)::text as owner,
    pg_catalog.obj_description(t.oid, 'pg_type') as comment,
    x.extname::text as extension,
    array(
        select e.enumlabel::text from pg_catalog.pg_enum e
        where e.enumtypid = t.oid order by e.enumsortorder
    ) as labels,
    case when t.typtype = 'd' then pg_catalog.format_type(t.typbasetype, t.typtypmod) end as base,
    case when t.typtype = 'd' and t.typcollation <> bt.typcollation then
        (select pg_catalog.quote_ident(cn.nspname) || '.' || pg_catalog.quote_ident(co.collname)
         from pg_catalog.pg_collation co join pg_catalog.pg_namespace cn on cn.oid = co.collnamespace
         where co.oid = t.typcollation)
    end as collation,
    t.typnotnull as not_null,
    t.typdefault as "default",
    coalesce(
        (
            select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(
                    k.conname, pg_catalog.pg_get_constraintdef(k.oid)) order by k.conname)
            from pg_catalog.pg_constraint k
            where k.contypid = t.oid and k.contype = 'c'
        ),
        '[]'
    ) as checks,
    coalesce(
        (
            select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(
                    a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
                    case when a.attcollation <> at.typcollation then
                        pg_catalog.quote_ident(cn.nspname) || '.'
                            || pg_catalog.quote_ident(co.collname)
                    end) order by a.attnum)
            from pg_catalog.pg_attribute a
            join pg_catalog.pg_type at on at.oid = a.atttypid
            left join pg_catalog.pg_collation co on co.oid = a.attcollation
            left join pg_catalog.pg_namespace cn on cn.oid = co.collnamespace
            where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
                and t.typtype = 'c'
        ),
        '[]'
    ) as attributes,
    (
        select pg_catalog.jsonb_build_object(
            'subtype', pg_catalog.format_type(r.rngsubtype, null),
            'subtype_opclass',
                (select pg_catalog.quote_ident(on_.nspname) || '.'
                        || pg_catalog.quote_ident(oc.opcname)
                 from pg_catalog.pg_opclass oc
                 join pg_catalog.pg_namespace on_ on on_.oid = oc.opcnamespace
                 where oc.oid = r.rngsubopc and not oc.opcdefault),
            'collation',
                (select pg_catalog.quote_ident(cn.nspname) || '.'
                        || pg_catalog.quote_ident(co.collname)
                 from pg_catalog.pg_collation co
                 join pg_catalog.pg_namespace cn on cn.oid = co.collnamespace
                 join pg_catalog.pg_type st on st.oid = r.rngsubtype
                 where co.oid = r.rngcollation and co.oid <> st.typcollation),
            'canonical', case when r.rngcanonical <> 0
                then pg_catalog.to_jsonb(r) ->> 'rngcanonical' end,
            'subtype_diff', case when r.rngsubdiff <> 0 then
                (select pg_catalog.quote_ident(fn.nspname) || '.'
                        || pg_catalog.quote_ident(f.proname)
                 from pg_catalog.pg_proc f
                 join pg_catalog.pg_namespace fn on fn.oid = f.pronamespace
                 where f.oid = r.rngsubdiff) end,
            'multirange_type_name',
                (select pg_catalog.quote_ident(mn.nspname) || '.'
                        || pg_catalog.quote_ident(mt.typname)
                 from pg_catalog.pg_type mt
                 join pg_catalog.pg_namespace mn on mn.oid = mt.typnamespace
                 where mt.oid::text = pg_catalog.to_jsonb(r) ->> 'rngmultitypid'))
        from pg_catalog.pg_range r where r.rngtypid = t.oid
    ) as range,
    -- What a default, a check or a range calls, and its extension; functions are not made.
    (
        select coalesce(pg_catalog.jsonb_agg(distinct pg_catalog.jsonb_build_array(
                f.oid::pg_catalog.regprocedure::text, fx.extname)), '[]')
        from pg_catalog.pg_depend fd
        join pg_catalog.pg_proc f
            on fd.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass and f.oid = fd.refobjid
        join pg_catalog.pg_namespace fn on fn.oid = f.pronamespace
        left join pg_catalog.pg_depend fe
            on fe.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and fe.objid = f.oid
                and fe.deptype = 'e'
                and fe.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
        left join pg_catalog.pg_extension fx on fx.oid = fe.refobjid
        where (fd.classid, fd.objid) in (
                select 'pg_catalog.pg_type'::pg_catalog.regclass::oid, t.oid
                union all
                select 'pg_catalog.pg_constraint'::pg_catalog.regclass::oid, k.oid
                from pg_catalog.pg_constraint k where k.contypid = t.oid)
            and fn.nspname <> 'pg_catalog'
            and t.typtype in ('d', 'r')
    ) as needs,
    array(
        select distinct pg_catalog.quote_ident(cn.nspname) || '.'
            || pg_catalog.quote_ident(co.collname)
        from pg_catalog.pg_depend cd
        join pg_catalog.pg_collation co
            on cd.refclassid = 'pg_catalog.pg_collation'::pg_catalog.regclass and co.oid = cd.refobjid
        join pg_catalog.pg_namespace cn on cn.oid = co.collnamespace
        where (cd.classid, cd.objid) in (
            select 'pg_catalog.pg_type'::pg_catalog.regclass::oid, t.oid
            union all
            select 'pg_catalog.pg_class'::pg_catalog.regclass::oid, t.typrelid
            union all
            select 'pg_catalog.pg_constraint'::pg_catalog.regclass::oid, k.oid
            from pg_catalog.pg_constraint k where k.contypid = t.oid)
        order by 1
    ) as collations
from (select d.oid, max(d.depth) as depth from needed d group by d.oid) d
join pg_catalog.pg_type t on t.oid = d.oid
join pg_catalog.pg_namespace n on n.oid = t.typnamespace
left join pg_catalog.pg_type bt on bt.oid = t.typbasetype
left join pg_catalog.pg_class rc on rc.oid = t.typrelid
left join pg_catalog.pg_depend dx
    on dx.classid = 'pg_catalog.pg_type'::pg_catalog.regclass and dx.objid = t.oid
        and dx.deptype = 'e' and dx.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
left join pg_catalog.pg_extension x on x.oid = dx.refobjid
where n.nspname not in ('pg_catalog', 'information_schema')
    and t.typtype <> 'm'
    and not (t.typelem <> 0 and t.typcategory = 'A')
order by d.depth desc, n.nspname, t.typname
