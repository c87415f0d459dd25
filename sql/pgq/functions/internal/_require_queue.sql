create or replace function pgq._require_queue(i_queue_name text)
returns pgq.queue
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the row of a queue; raises LD001 when there is none.
 */
declare
    v_queue pgq.queue;
begin
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    if not found then
        perform pgq._raise_no_queue('Queue not found', i_queue_name);
    end if;
    return v_queue;
end;
$$;
