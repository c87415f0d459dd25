create or replace function londiste.apply_slices(
    i_queue_name text, i_attempt int8, i_from_slice int4,
    out slice int4,
    out result text
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the staged slices of an attempt in order, beginning with i_from_slice.
 */
select s.slice, s.result
from londiste.large_batch_slice s
where s.queue_name = i_queue_name
    and s.attempt = i_attempt
    and s.slice >= i_from_slice
order by s.slice;
$$;
