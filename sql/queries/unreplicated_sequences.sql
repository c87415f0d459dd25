/*
 * Sequences of columns of replicated tables that this node does not replicate: kind, a table,
 * sequence, the statement without which this role cannot replicate it ('' if it can), its name then.
 *
 * A schema with a dot in its name has no name in a queue: the sequence moves to that of the table.
 * Those of serial and identity columns, and those that a default names, of partitions, too.
 * %(queue)s the queue.
 */
select 'sequence', min(f.name), n.nspname || '.' || s.relname,
    case
        when pg_catalog.strpos(n.nspname, '.') > 0
        then pg_catalog.format('alter sequence %%I.%%I set schema %%I', n.nspname, s.relname, pg_catalog.split_part(min(f.name), '.', 1))
        when case s.relkind when 'S' then pg_catalog.has_sequence_privilege(s.oid, 'select') end
        then ''
        else pg_catalog.format('grant select on sequence %%I.%%I to %%I', n.nspname, s.relname, current_user)
    end,
    case
        when pg_catalog.strpos(n.nspname, '.') > 0 then pg_catalog.split_part(min(f.name), '.', 1)
        else n.nspname
    end || '.' || s.relname
from (
    select coalesce(t.dest_table, t.table_name) as name,
        londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) as oid
    from londiste.table_info t
    where t.queue_name = %(queue)s and t.local
) k
cross join lateral (
    select k.oid as relid
    union
    select p.relid from londiste._partition_tree(k.oid) p
) r
cross join lateral (
    select k.name, d.objid as seq
    from pg_catalog.pg_depend d
    where d.refclassid = 'pg_catalog.pg_class'::regclass
        and d.refobjid = r.relid
        and d.refobjsubid > 0
        and d.classid = 'pg_catalog.pg_class'::regclass
        and d.deptype in ('a', 'i')
    union all
    select k.name, d.refobjid
    from pg_catalog.pg_attrdef e
    join pg_catalog.pg_depend d
        on d.classid = 'pg_catalog.pg_attrdef'::regclass
        and d.objid = e.oid
        and d.refclassid = 'pg_catalog.pg_class'::regclass
    where e.adrelid = r.relid
) f
join pg_catalog.pg_class s on s.oid = f.seq and s.relkind = 'S'
join pg_catalog.pg_namespace n on n.oid = s.relnamespace
where not exists (
    select from londiste.seq_info i
    where i.queue_name = %(queue)s and i.local
        and i.seq_name = n.nspname || '.' || s.relname)
group by s.oid, s.relkind, n.nspname, s.relname
order by 3
