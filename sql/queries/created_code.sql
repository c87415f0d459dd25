/*
 * Parts of the tables %(tables)s that run more than harmless functions when rows are written.
 *
 * object -- the part.  code -- the function, or what else runs.
 *
 * Harmless: functions that are not volatile, and a few volatile ones of PostgreSQL.  Those that
 * execute SQL of their arguments, or read other tables, are not.
 */
with recursive tables (oid) as (
    select c.oid
    from pg_catalog.unnest(%(tables)s::text[]) as t
    -- to_regclass() fails without USAGE on the schema.
    cross join lateral pg_catalog.parse_ident(t) as part
    join pg_catalog.pg_namespace as n on n.nspname = part[1]
    join pg_catalog.pg_class as c on c.relnamespace = n.oid and c.relname = part[2]
), types (oid) as (
    select a.atttypid
    from pg_catalog.pg_attribute as a
    where a.attrelid in (select t.oid from tables as t) and a.attnum > 0 and not a.attisdropped
    union
    select part.oid
    from types as y
        join pg_catalog.pg_type as p on p.oid = y.oid
        cross join lateral (
            select p.typbasetype
            union all
            select p.typelem
            union all
            select r.rngsubtype from pg_catalog.pg_range as r where p.oid in (r.rngtypid, r.rngmultitypid)
            union all
            select a.atttypid
            from pg_catalog.pg_attribute as a
            where a.attrelid = p.typrelid and a.attnum > 0 and not a.attisdropped
        ) as part (oid)
    where part.oid <> 0
), expressions (object, tree) as (
    select 'column ' || a.attname, d.adbin::text
    from pg_catalog.pg_attrdef as d
        join pg_catalog.pg_attribute as a on a.attrelid = d.adrelid and a.attnum = d.adnum
    where d.adrelid in (select t.oid from tables as t)
    union all
    select 'constraint ' || k.conname, k.conbin::text
    from pg_catalog.pg_constraint as k
    where k.conrelid in (select t.oid from tables as t)
        or k.contypid in (select y.oid from types as y)
    union all
    select 'domain ' || pg_catalog.format_type(p.oid, null), p.typdefaultbin::text
    from pg_catalog.pg_type as p
    where p.oid in (select y.oid from types as y)
    union all
    select 'index ' || c.relname,
        pg_catalog.concat(x.indexprs::text, x.indpred::text)
    from pg_catalog.pg_index as x
        join pg_catalog.pg_class as c on c.oid = x.indexrelid
    where x.indrelid in (select t.oid from tables as t)
    union all
    select 'partition key of ' || c.relname, p.partexprs::text
    from pg_catalog.pg_partitioned_table as p
        join pg_catalog.pg_class as c on c.oid = p.partrelid
    where p.partrelid in (select t.oid from tables as t)
    union all
    select 'policy ' || p.polname, pg_catalog.concat(p.polqual::text, p.polwithcheck::text)
    from pg_catalog.pg_policy as p
    where p.polrelid in (select t.oid from tables as t)
    union all
    select 'trigger ' || g.tgname, g.tgqual::text
    from pg_catalog.pg_trigger as g
    where g.tgrelid in (select t.oid from tables as t)
    union all
    select 'statistics ' || s.stxname, s.stxexprs::text
    from pg_catalog.pg_statistic_ext as s
    where s.stxrelid in (select t.oid from tables as t)
), calls (object, function) as (
    select e.object, m[1]::oid
    from expressions as e,
        pg_catalog.regexp_matches(e.tree, ':(?:funcid|opfuncid) (\d+)', 'g') as m
    union
    select e.object, o.oprcode::oid
    from expressions as e,
        pg_catalog.regexp_matches(e.tree, ':opno (\d+)', 'g') as m
        join pg_catalog.pg_operator as o on o.oid = m[1]::oid
    union
    select 'type ' || pg_catalog.format_type(r.rngtypid, null), f.oid
    from pg_catalog.pg_range as r,
        pg_catalog.unnest(array[r.rngcanonical::oid, r.rngsubdiff::oid]) as f (oid)
    where r.rngtypid in (select y.oid from types as y)
)
select c.object, c.function::pg_catalog.regprocedure::text as code
from calls as c
    join pg_catalog.pg_proc as f on f.oid = c.function
    join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
where case
    when n.nspname <> 'pg_catalog' then f.provolatile = 'v'
    -- These read any table, or execute any query.
    when f.proname like '%%\_to\_xml%%' then true
    else f.provolatile = 'v' and f.proname not in (
        'nextval', 'random', 'random_normal', 'gen_random_uuid', 'uuidv4', 'uuidv7',
        'clock_timestamp', 'timeofday')
    end
union
select 'rule ' || r.rulename, 'its actions, with the rights of the owner of the table'
from pg_catalog.pg_rewrite as r
where r.ev_class in (select t.oid from tables as t)
union
select 'trigger ' || g.tgname, g.tgfoid::pg_catalog.regprocedure::text
from pg_catalog.pg_trigger as g
where g.tgrelid in (select t.oid from tables as t)
    and g.tgconstrindid = 0 and g.tgenabled in ('A', 'R')
    -- Captures belong to a node; they are never created with a table.
    and g.tgfoid not in (
        select f.oid
        from pg_catalog.pg_proc as f
            join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
        where n.nspname in ('pgq', 'londiste', 'londiste_capture'))
order by 1, 2
