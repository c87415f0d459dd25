create or replace function londiste._partitions(i_relid oid)
returns oid[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the partitions of a table that contain rows; an empty array for an ordinary table.
 */
select coalesce(array_agg(p.relid::oid order by p.relid::oid), '{}')
from pg_partition_tree(i_relid) as p
where p.isleaf and p.relid <> i_relid;
$$;
