create or replace function londiste.compare_begin(
    i_queue_name text,
    i_job text,
    i_table_name text,
    i_signature text,
    i_conditions text[],
    i_buckets int4[])
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the ranges of a table to compare, and deletes earlier results of the table.
 *
 * i_job -- compare or audit.
 *
 * Raises LD003 when this database is no node of the queue.
 */
begin
    perform londiste._require_node(i_queue_name);
    delete from londiste.compare_range
    where queue_name = i_queue_name and job = i_job and table_name = i_table_name;
    insert into londiste.compare_range
        (queue_name, job, table_name, number, signature, condition, buckets)
    select i_queue_name, i_job, i_table_name, s.n - 1, i_signature, s.condition, s.buckets
    from unnest(i_conditions, i_buckets) with ordinality as s(condition, buckets, n);
end;
$$;
