create or replace function londiste.compare_done(
    i_queue_name text,
    i_job text,
    i_table_name text,
    i_number int4,
    i_tick_id int8,
    i_rows int8,
    i_differs int4,
    i_findings jsonb)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the result of a range.  Returns false when the table has got other ranges since.
 *
 * i_tick_id -- the tick at which both sides were read; NULL: they could not be compared, and
 *     nothing but the differences that were known is known of the range.
 * i_differs -- number of rows that differ; 0 when both sides are equal.
 * i_findings -- the first of these rows.
 */
begin
    update londiste.compare_range
    set checked_tick = i_tick_id,
        checked_at = case when i_tick_id is not null then now() end,
        rows = i_rows,
        differs = i_differs,
        findings = i_findings
    where queue_name = i_queue_name and job = i_job and table_name = i_table_name
        and number = i_number;
    return found;
end;
$$;
