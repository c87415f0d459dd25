create or replace function pgq_coop.register_subconsumer(
    i_queue_name text,
    i_consumer_name text,
    i_subconsumer_name text
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Registers a subconsumer (worker) at the end of the queue, and its main consumer if needed.
 *
 * Returns 1, or 0 when it was registered already; then nothing changes.
 *
 * A subconsumer is a consumer with the name main.sub.  Its subscription has the number (sub_id) of
 * the main consumer.
 */
declare
    v_name text := i_consumer_name || '.' || i_subconsumer_name;
    v_main record;
    v_consumer_id int4;
    v_sub_id int4;
begin
    v_main := pgq_coop._lock_main(i_queue_name, i_consumer_name);
    if v_main.sub_id is null then
        perform pgq.register_consumer(i_queue_name, i_consumer_name);
        v_main := pgq_coop._lock_main(i_queue_name, i_consumer_name);
    end if;
    if i_subconsumer_name is null then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            hint = 'set the name of the subconsumer';
    end if;
    if v_main.sub_id is null or pgq._is_subconsumer(
        v_main.sub_id, v_main.sub_queue, v_main.sub_consumer
    ) then
        raise exception using
            errcode = 'LD002',
            message = 'main consumer not found',
            detail = case when v_main.sub_id is null
                then format('%s was unregistered from queue %s at this moment',
                            i_consumer_name, i_queue_name)
                else format('%s is a subconsumer itself', i_consumer_name) end,
            hint = case when v_main.sub_id is null then 'register it again'
                else 'name the main consumer, without the part after the dot'
                end;
    end if;

    -- The row lock keeps the name while another session unregisters it from another queue.
    loop
        select co_id into v_consumer_id from pgq.consumer where co_name = v_name for key share;
        exit when found;
        perform pgq._require_short_name('consumer'::text, v_name);
        insert into pgq.consumer (co_name) values (v_name) on conflict (co_name) do nothing;
    end loop;

    select sub_id
    into v_sub_id
    from pgq.registration
    where sub_queue = v_main.sub_queue and sub_consumer = v_consumer_id;
    if found and v_sub_id = v_main.sub_id then
        return 0;
    elsif found then
        raise exception using
            errcode = 'LD100',
            message = format('consumer %s is registered for itself', v_name),
            detail = format('it has a position of its own on queue %s', i_queue_name),
            hint = format('choose another name for the subconsumer, or: select '
                          'pgq.unregister_consumer(%L, %L)', i_queue_name, v_name);
    end if;
    -- Not by the view: its triggers do not fire for sessions with the replica role.
    insert into pgq.registration (
        sub_id, sub_queue, sub_consumer, sub_last_tick, sub_active, sub_generation
    )
    values (
        v_main.sub_id, v_main.sub_queue, v_consumer_id, null, clock_timestamp(),
        pgq._position_generation()
    );
    insert into pgq.consumer_owner (own_queue, own_consumer, own_role)
    values (v_main.sub_queue, v_consumer_id, pgq._caller())
    on conflict on constraint own_pkey do update
        set own_role = excluded.own_role, own_exclusive = false;
    return 1;
end;
$$;
