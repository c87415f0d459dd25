/*
 * Tables outside of the schemas of the system and of replication and of extensions.
 *
 * %(locked)s -- oids of tables whose bytes are not read, but 0: reading would wait for a lock.
 * kind -- r, p partitioned; persistence -- p, u unlogged; partition -- of another one;
 * root -- schema and name of the partitioned table at the top, null for none.
 * keyed -- has a primary key, or another unique index that is its replica identity.
 * mine -- this session may act as its owner; always -- triggers that fire for replicated rows, too.
 * forced -- row-level security holds for its owner, too; hidden -- it holds for this session.
 * unique_key -- as json: the columns of a unique index that are not null, and the index if it can
 * become that of a primary key; null for none.
 * deferrable -- name of the primary key if it is deferrable; exclusions -- exclusion constraints.
 * rules -- rewrite rules that apply to replicated rows, too.
 * columns -- as json: name, type, required (must be given: not null, and nothing fills it),
 * generated (s or v, empty for none), identity, key (its place in the primary key, null for none).
 */
select
    n.nspname::text as schema,
    c.relname::text as name,
    c.relkind::text as kind,
    c.relpersistence::text as persistence,
    c.relispartition as partition,
    (
        select array[s.nspname::text, r.relname::text]
        from pg_catalog.pg_class r join pg_catalog.pg_namespace s on s.oid = r.relnamespace
        where c.relispartition and r.oid = pg_catalog.pg_partition_root(c.oid)) as root,
    greatest(c.reltuples, 0)::int8 as rows,
    case when c.oid = any (%(locked)s::oid[]) then 0
        else pg_catalog.pg_total_relation_size(c.oid) end::int8 as bytes,
    exists (
        select from pg_catalog.pg_index i
        where i.indrelid = c.oid and i.indisprimary) as keyed,
    pg_catalog.pg_has_role(c.relowner, 'USAGE') as mine,
    pg_catalog.pg_get_userbyid(c.relowner)::text as owner,
    array(
        select t.tgname::text from pg_catalog.pg_trigger t
        join pg_catalog.pg_proc p on p.oid = t.tgfoid
        join pg_catalog.pg_namespace f on f.oid = p.pronamespace
        where t.tgrelid = c.oid and t.tgconstrindid = 0 and t.tgenabled in ('A', 'R')
            and f.nspname not in ('pgq', 'londiste', 'londiste_capture')
        order by 1) as always,
    c.relrowsecurity and c.relforcerowsecurity as forced,
    pg_catalog.row_security_active(c.oid) as hidden,
    (
        select pg_catalog.jsonb_build_object(
            'index', case when not exists (
                select from pg_catalog.pg_constraint k where k.conindid = u.oid) then u.relname end,
            'columns', (
                select pg_catalog.jsonb_agg(a.attname order by o.place)
                from pg_catalog.unnest(i.indkey::int2[]) with ordinality o (number, place)
                join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = o.number
                where o.place <= i.indnkeyatts))
        from pg_catalog.pg_index i join pg_catalog.pg_class u on u.oid = i.indexrelid
        where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indimmediate
            and i.indpred is null and i.indexprs is null
            and not exists (
                select from pg_catalog.pg_attribute a
                where a.attrelid = c.oid and not a.attnotnull
                    and a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1]))
        order by i.indnkeyatts, u.relname limit 1) as unique_key,
    (
        select pg_catalog.jsonb_build_object(
            'name', k.conname,
            'definition', pg_catalog.regexp_replace(
                pg_catalog.pg_get_constraintdef(k.oid), ' DEFERRABLE( INITIALLY DEFERRED)?$', ''))
        from pg_catalog.pg_constraint k
        where k.conrelid = c.oid and k.contype = 'p' and k.condeferrable) as deferrable,
    array(
        select k.conname::text from pg_catalog.pg_constraint k
        where k.conrelid = c.oid and k.contype = 'x' order by 1) as exclusions,
    array(
        select r.rulename::text from pg_catalog.pg_rewrite r
        where r.ev_class = c.oid and r.ev_enabled in ('A', 'R') order by 1) as rules,
    coalesce((
        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
            'name', a.attname,
            'type', pg_catalog.format_type(a.atttypid, a.atttypmod),
            'required', a.attnotnull and not a.atthasdef and a.attidentity = ''
                and y.typdefault is null,
            'generated', a.attgenerated,
            'identity', a.attidentity <> '',
            'key', pg_catalog.array_position((i.indkey::int2[])[0:i.indnkeyatts - 1], a.attnum)) order by a.attnum)
        from pg_catalog.pg_attribute a
        join pg_catalog.pg_type y on y.oid = a.atttypid
        left join pg_catalog.pg_index i on i.indrelid = a.attrelid and i.indisprimary
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped), '[]') as columns
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relpersistence <> 't'
    and n.nspname !~ '^pg_'
    and n.nspname not in
        ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste',
         'londiste_capture', 'londiste_apply')
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = c.tableoid and d.objid = c.oid and d.deptype = 'e')
order by 1, 2
