create or replace function pgq._max_retries(
    i_batch_id int8,
    out max_retries int4,
    out reason text
)
returns record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns how often an event of this batch may be retried, and the reason to store after that.
 *
 * max_retries -- null: no limit.
 */
declare
    v_name text;
begin
    select q.queue_max_retries, q.queue_name
    into max_retries, v_name
    from pgq._open_batch(i_batch_id) s
    join pgq.queue q on q.queue_id = s.sub_queue;
    reason := format(
        'retry requested after %s retries, the limit (max_retries) of queue %s',
        max_retries, v_name
    );
end;
$$;
