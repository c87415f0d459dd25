/*
 * Foreign tables among the partitions of tables, whose rows would find no partition in a copy of the structure.
 *
 * %(tables)s -- the tables, quoted.
 * With an ordinary default partition beside it, rows of the foreign one have a place.
 */
select n.name as table_name, pn.nspname || '.' || p.relname as partition
from pg_catalog.unnest(%(tables)s::text[]) with ordinality as n (name, place)
cross join lateral pg_catalog.pg_partition_tree(n.name::pg_catalog.regclass) t
join pg_catalog.pg_class p on p.oid = t.relid and p.relkind = 'f'
join pg_catalog.pg_namespace pn on pn.oid = p.relnamespace
join pg_catalog.pg_partitioned_table k on k.partrelid = t.parentrelid
left join pg_catalog.pg_class d on d.oid = k.partdefid
where d.relkind is null or d.relkind = 'f'
order by n.place, p.relname
