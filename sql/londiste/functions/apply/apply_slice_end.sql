create or replace function londiste.apply_slice_end(
    i_queue_name text, i_attempt int8, i_slice int4, i_result text
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the result of a task that has staged its slice, in the same transaction.
 */
begin
    update londiste.large_batch_slice s
    set result = i_result
    where s.queue_name = i_queue_name
        and s.attempt = i_attempt
        and s.slice = i_slice;
end;
$$;
