create or replace function pgq._require_subscription(i_queue_name text, i_consumer_name text)
returns pgq.registration
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the registration of a consumer, without its position.
 *
 * Raises LD002 when there is none, 42501 when the session may not use it.
 */
declare
    v_sub pgq.registration;
begin
    select s.*
    into v_sub
    from pgq.queue q
    join pgq.registration s on s.sub_queue = q.queue_id
    join pgq.consumer c on c.co_id = s.sub_consumer
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
            hint = 'see who is registered: select * from pgq.get_consumer_info()';
    end if;
    perform pgq._require_owner(v_sub.sub_queue, v_sub.sub_consumer, 'use');
    return v_sub;
end;
$$;
