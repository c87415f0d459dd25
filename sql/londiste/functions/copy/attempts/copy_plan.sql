create or replace function londiste.copy_plan(
    i_queue_name text, i_table_name text, i_attempt int8, i_plan jsonb,
    i_conditions text[], i_bytes int8[], i_rows int8[]
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the chunks of a resumable copy.
 *
 * Call it in the transaction of copy_start(), so that no chunk is copied earlier.
 *
 * i_conditions, i_bytes, i_rows -- one element per chunk.
 */
begin
    update londiste.copy_attempt a
    set resumes = true,
        plan = i_plan
    where a.queue_name = i_queue_name
        and a.table_name = i_table_name
        and a.attempt = i_attempt;
    insert into londiste.copy_range
        (queue_name, table_name, attempt, chunk, condition, bytes, rows)
    select i_queue_name, i_table_name, i_attempt, r.number - 1, r.condition, r.bytes, r.rows
    from unnest(i_conditions, i_bytes, i_rows) with ordinality
        as r (condition, bytes, rows, number);
end;
$$;
