create or replace function londiste.settle_partitions(i_queue_name text, i_table_name text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Clears the entries of a table in partition_changes().  Returns their number.
 *
 * Call it when the subscribers have the rows of the table's partitions again.
 */
declare
    v_count int4;
    v_more int4;
begin
    delete from londiste.capture_partition as k
    where k.queue_name = i_queue_name
        and k.table_name = i_table_name
        and k.wrong is not null
        and not exists (
            select from pg_partition_ancestors(k.relid) as a (relid)
            where a.relid::oid = londiste.find_table_oid(i_table_name));
    get diagnostics v_count = row_count;
    update londiste.capture_partition as k
    set wrong = null,
        place = (
            select p.place
            from londiste._partition_places(londiste.find_table_oid(i_table_name)) as p
            where p.oid = k.relid)
    where k.queue_name = i_queue_name
        and k.table_name = i_table_name
        and k.wrong is not null;
    get diagnostics v_more = row_count;
    return v_count + v_more;
end;
$$;
