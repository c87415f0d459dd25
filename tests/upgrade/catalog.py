"""Catalog contents of a schema as comparable text."""

from __future__ import annotations

from londiste.db.connection import Connection

# One line per thing; oids and physical details (column numbers, file nodes) stay out, except the
# order of columns, on which "select *" depends.
_SHAPE = """
with ns as (select oid, nspacl, nspname from pg_namespace where nspname = %(schema)s),
rel as (select c.* from pg_class c where c.relnamespace = (select oid from ns)),
fun as (select p.* from pg_proc p where p.pronamespace = (select oid from ns)),
acl as (
    select 'schema ' || nspname as what, nspacl as items from ns
    union all select 'relation ' || relname, relacl from rel
    union all select 'column ' || r.relname || '.' || a.attname, a.attacl
        from rel r join pg_attribute a on a.attrelid = r.oid where a.attnum > 0
    union all select 'function ' || oid::regprocedure::text, proacl from fun
)
select format('relation %%s %%s %%s %%s %%s', relkind, relname, relpersistence, relreplident,
        reloptions)
    from rel
union all
select format('inherits %%s %%s', i.inhrelid::regclass, i.inhparent::regclass)
    from pg_inherits i where i.inhrelid in (select oid from rel)
union all
select format('column %%s.%%s %%s %%s %%s %%s %%s %%s', r.relname, a.attname,
        row_number() over (partition by r.oid order by a.attnum),
        format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
        pg_get_expr(d.adbin, d.adrelid))
    from rel r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
union all
select format('constraint %%s %%s %%s', r.relname, k.conname, pg_get_constraintdef(k.oid))
    from rel r join pg_constraint k on k.conrelid = r.oid
union all
select format('index %%s', pg_get_indexdef(i.indexrelid))
    from rel r join pg_index i on i.indrelid = r.oid
union all
select format('trigger %%s', pg_get_triggerdef(t.oid))
    from rel r join pg_trigger t on t.tgrelid = r.oid where not t.tgisinternal
union all
select format('sequence %%s %%s %%s %%s %%s %%s', r.relname, s.seqstart, s.seqincrement, s.seqmax,
        s.seqcache, s.seqcycle)
    from rel r join pg_sequence s on s.seqrelid = r.oid
union all
select format('view %%s %%s', relname, pg_get_viewdef(oid)) from rel where relkind in ('v', 'm')
union all
select format('function %%s %%s', p.oid::regprocedure,
        case when p.prokind = 'a' then 'aggregate' else pg_get_functiondef(p.oid) end)
    from fun p
union all
select format('comment %%s %%s', pg_describe_object(d.classoid, d.objoid, d.objsubid),
        d.description)
    from pg_description d
    where d.objoid in (select oid from rel union all select oid from fun
        union all select oid from ns)
union all
select format('grant %%s: %%s to %%s by %%s, grantable %%s', acl.what, e.privilege_type,
        case when e.grantee = 0 then 'public' else e.grantee::regrole::text end,
        e.grantor::regrole, e.is_grantable)
    from acl, aclexplode(acl.items) e
order by 1
"""


def shape(conn: Connection, schema: str) -> list[str]:
    """Relations, columns, constraints, indexes, functions with body and settings, comments and
    grants of a schema, one line each, sorted.
    """
    return [line for (line,) in conn.execute(_SHAPE, {"schema": schema})]
