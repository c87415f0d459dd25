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
 * i_job -- compare or audit.  Differences that an audit knows move to the last of the new ranges,
 *     which is compared last, so that they are known until all of the table has been compared again.
 *
 * Raises LD003 when this database is no node of the queue.
 */
declare
    v_differs int4;
    v_findings jsonb;
begin
    perform londiste._require_node(i_queue_name);
    if i_job = 'audit' then
        select sum(r.differs)::int4, (array_agg(r.findings order by r.number))[1]
        into v_differs, v_findings
        from londiste.compare_range r
        where r.queue_name = i_queue_name and r.job = i_job and r.table_name = i_table_name
            and r.differs > 0;
    end if;
    delete from londiste.compare_range
    where queue_name = i_queue_name and job = i_job and table_name = i_table_name;
    insert into londiste.compare_range
        (queue_name, job, table_name, number, signature, condition, buckets, differs, findings)
    select i_queue_name, i_job, i_table_name, s.n - 1, i_signature, s.condition, s.buckets,
        case when s.n = cardinality(i_conditions) then v_differs end,
        case when s.n = cardinality(i_conditions) then v_findings end
    from unnest(i_conditions, i_buckets) with ordinality as s(condition, buckets, n);
end;
$$;
