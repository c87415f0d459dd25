-- Sequences outside of the schemas of the system and of replication and of extensions.
select
    n.nspname::text as schema,
    c.relname::text as name,
    pg_catalog.format_type(s.seqtypid, null) as type,
    s.seqincrement as increment,
    s.seqmin as low,
    s.seqmax as high,
    s.seqcycle as cycle
from pg_catalog.pg_sequence s
join pg_catalog.pg_class c on c.oid = s.seqrelid and c.relpersistence <> 't'
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname !~ '^pg_'
    and n.nspname not in
        ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste',
         'londiste_capture')
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = c.tableoid and d.objid = c.oid and d.deptype = 'e')
order by 1, 2
