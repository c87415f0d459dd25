create or replace function londiste.compare_ranges(
    i_queue_name text,
    i_job text,
    out table_name text,
    out number int4,
    out signature text,
    out condition text,
    out buckets int4,
    out begun_at timestamptz,
    out checked_tick int8,
    out checked_at timestamptz,
    out rows int8,
    out differs int4,
    out findings jsonb)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the ranges of a job, compare or audit, with their results.
 */
begin
    return query
    select r.table_name, r.number, r.signature, r.condition, r.buckets, r.begun_at,
        r.checked_tick, r.checked_at, r.rows, r.differs, r.findings
    from londiste.compare_range r
    where r.queue_name = i_queue_name and r.job = i_job
    order by r.table_name, r.number;
end;
$$;
