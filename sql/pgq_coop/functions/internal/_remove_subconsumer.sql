create or replace function pgq_coop._remove_subconsumer(i_queue_id int4, i_consumer_id int4)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes the subscription of a worker, and its name if it is unused.
 *
 * The name stays when another queue has it, or when the worker is paused: a paused worker that was
 * taken for dead is still paused when it returns.
 */
begin
    delete from pgq.registration
    where sub_queue = i_queue_id and sub_consumer = i_consumer_id;
    -- Who registers it at this moment has the name, and may wait for what is deleted here: the name stays.
    perform from pgq.consumer where co_id = i_consumer_id for update skip locked;
    if not found then
        return;
    end if;
    begin
        delete from pgq.consumer c
        where c.co_id = i_consumer_id
            and not exists (select 1 from pgq.registration s where s.sub_consumer = c.co_id)
            and not exists (select 1 from pgq.paused_consumer p where p.pc_consumer = c.co_id);
    exception
        when foreign_key_violation then
            -- Registered with another queue at this moment: the name stays.
            null;
    end;
end;
$$;
