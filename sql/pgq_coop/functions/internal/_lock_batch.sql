create or replace function pgq_coop._lock_batch(
    i_batch_id int8,
    out sub_queue int4,
    out sub_consumer int4,
    out sub_active timestamptz
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * The subscription of the worker that has a batch open, locked; all null if there is none.
 *
 * Waits for a takeover that is under way, and then finds nothing.  Nobody takes over a batch
 * whose worker holds this lock.
 */
declare
    v_sub_id int4;
begin
    select s.sub_id, s.sub_queue, s.sub_consumer, s.sub_active
    into v_sub_id, sub_queue, sub_consumer, sub_active
    from pgq.subscription s
    where s.sub_batch = i_batch_id
    for update of s;
    if found and not pgq_coop._is_subconsumer(v_sub_id, sub_queue, sub_consumer) then
        sub_queue := null;
        sub_consumer := null;
        sub_active := null;
    end if;
end;
$$;
