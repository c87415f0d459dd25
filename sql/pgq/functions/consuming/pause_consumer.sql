create or replace function pgq.pause_consumer(
    i_queue_name text,
    i_consumer_name text,
    i_reason text default null
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Has the consumer's program take no batch until resume_consumer(); true when it was not paused.
 *
 * The batch it works on is finished first.  Nothing is lost: its events wait, and keep the
 * queue's tables from being rotated.  Cooperative consumers are paused with their main consumer.
 * Programs that do not ask (get_paused_consumers) are not kept from anything.
 */
begin
    insert into pgq.paused_consumer (pc_queue, pc_consumer, pc_reason)
    select s.sub_queue, s.sub_consumer, i_reason
    from pgq.registration s
    join pgq.queue q on q.queue_id = s.sub_queue
    join pgq.consumer c on c.co_id = s.sub_consumer
    where q.queue_name = i_queue_name and c.co_name = i_consumer_name
    on conflict on constraint pc_pkey do nothing;
    if found then
        perform pg_notify('pgq_tick', left(i_queue_name, 1000));
        return true;
    end if;
    perform 1
    from pgq.paused_consumer p
    join pgq.queue q on q.queue_id = p.pc_queue
    join pgq.consumer c on c.co_id = p.pc_consumer
    where q.queue_name = i_queue_name and c.co_name = i_consumer_name;
    if not found then
        raise exception using
            errcode = 'LD002',
            message = format(
                'Not subscriber to queue: %s/%s',
                coalesce(i_queue_name, 'NULL'),
                coalesce(i_consumer_name, 'NULL')
            ),
            detail = format('in database %s', current_database()),
            hint = 'select * from pgq.get_consumer_info()';
    end if;
    return false;
end;
$$;
