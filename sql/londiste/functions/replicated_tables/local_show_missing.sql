create or replace function londiste.local_show_missing(
    i_queue_name text,
    out obj_kind text,
    out obj_name text)
returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the tables ('r') and sequences ('S') that could be added on this node.
 *
 * On the root: those of the database that are not in the queue, except in the schemas of the system
 * and of replication.  On other nodes: those of the queue that are not local.
 *
 * Objects that cannot be replicated are not listed.  A schema with a dot in its name has no name in
 * the queue, where the first dot separates schema and name.  An unlogged table is truncated by
 * a crash; its own sequences are not listed, other unlogged sequences are.  The command londiste
 * missing lists these objects.
 *
 * A partitioned table represents its partitions.  If the queue contains one of the partitions, the
 * other partitions are listed instead.
 *
 * Raises LD001 for an unknown queue.
 */
begin
    if pgq_node.is_root_node(i_queue_name) then
        return query
            select r.kind, r.name
            from (
                select case c.relkind when 'S' then 'S' else 'r' end as kind,
                    n.nspname || '.' || c.relname as name
                from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where c.relkind in ('r', 'p', 'S')
                    and (c.relkind = 'S'
                        or c.relkind = 'r' and not c.relispartition
                        or c.relkind = 'r' and londiste._partitions_apart(i_queue_name, c.oid)
                        or c.relkind = 'p' and not c.relispartition
                            and not londiste._partitions_apart(i_queue_name, c.oid))
                    and (c.relpersistence = 'p' or c.relpersistence = 'u' and c.relkind = 'S'
                        and not exists (
                            select from pg_depend d
                            join pg_class o on o.oid = d.refobjid and o.relpersistence = 'u'
                            where d.classid = 'pg_class'::regclass and d.objid = c.oid
                                and d.refclassid = 'pg_class'::regclass
                                and d.deptype in ('a', 'i')))
                    and n.nspname not in ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop',
                                          'pgq_node', 'londiste', 'londiste_capture')
                    and n.nspname !~ '^pg_'
                    and position('.' in n.nspname) = 0
            ) r
            where not exists (
                    select from londiste.table_info t
                    where t.queue_name = i_queue_name and t.local
                        and r.kind = 'r' and r.name in (t.table_name, t.dest_table))
                and not exists (
                    select from londiste.seq_info s
                    where s.queue_name = i_queue_name and s.local
                        and r.kind = 'S' and r.name = s.seq_name)
            order by 1 desc, 2;
    else
        return query
            select 'r'::text, t.table_name
            from londiste.table_info t
            where t.queue_name = i_queue_name and not t.local
            order by 2;
        return query
            select 'S'::text, s.seq_name
            from londiste.seq_info s
            where s.queue_name = i_queue_name and not s.local
            order by 2;
    end if;
end;
$$;
