create or replace function londiste.drop_obsolete_partitions(
    i_parent_table text,
    i_retention_period interval,
    i_partition_period text)
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Drops the partitions that list_obsolete_partitions() returns, and returns their names.
 *
 * Takes ACCESS EXCLUSIVE on each partition, and on a partitioned parent: callers set lock_timeout.
 * A dependent object, a view for example, keeps the partition and is an error.
 */
declare
    v_part text;
begin
    for v_part in
        select l.name
        from londiste.list_obsolete_partitions(
            i_parent_table, i_retention_period, i_partition_period) l (name)
    loop
        execute format('drop table %s', londiste.quote_fqname(v_part));
        return next v_part;
    end loop;
end;
$$;
