create or replace function londiste.list_obsolete_partitions(
    i_parent_table text,
    i_retention_period interval,
    i_partition_period text)
returns setof text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the partitions of a table for which is_obsolete_partition() is true, oldest first.
 *
 * Partitions are the tables in the parent's schema whose name is the parent's name and a date.
 * Excluded are tables that belong to another table, and tables that are replicated themselves.
 */
select p.name
from londiste.split_fqname(i_parent_table) s
    join pg_namespace n on n.nspname = s.schema_part
    join pg_class c on c.relnamespace = n.oid and c.relkind in ('r', 'p')
    cross join lateral (select s.schema_part || '.' || c.relname) p (name)
where starts_with(c.relname, s.name_part || '_')
    and substr(c.relname, length(s.name_part) + 1) ~ '^(_[0-9]+)+$'
    and londiste.is_obsolete_partition(p.name, i_retention_period, i_partition_period)
    and (not exists (select from pg_inherits i where i.inhrelid = c.oid)
        or exists (select from pg_inherits i
                   where i.inhrelid = c.oid
                       and i.inhparent = londiste._capture_relation(i_parent_table)))
    and not exists (select from londiste.table_info t
                    where t.local and coalesce(t.dest_table, t.table_name) = p.name)
order by p.name collate "C";
$$;
