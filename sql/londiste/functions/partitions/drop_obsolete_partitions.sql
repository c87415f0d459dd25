create or replace function londiste.drop_obsolete_partitions(
    i_parent_table text,
    i_retention_period interval,
    i_partition_period text)
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Drops what list_obsolete_partitions() names, and names it.
 *
 * Takes ACCESS EXCLUSIVE on each, and on a parent that is partitioned: callers set lock_timeout.
 * What others have made of a partition, a view for example, keeps it: that is an error.
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
