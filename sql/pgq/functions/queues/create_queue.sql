create or replace function pgq.create_queue(i_queue_name text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Creates a queue with its tables, sequences and first tick.
 *
 * Returns 1, or 0 when a queue of this name already exists.  Consumers can register at once.
 */
declare
    v_id int4;
    v_queue pgq.queue;
    v_nr int4;
begin
    if i_queue_name is null then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            hint = 'set the name of the queue';
    end if;
    if exists (select 1 from pgq.queue where queue_name = i_queue_name) then
        return 0;
    end if;

    perform pgq._require_short_name('queue'::text, i_queue_name);
    v_id := nextval('pgq.queue_queue_id_seq');
    insert into pgq.queue (queue_id, queue_name, queue_data_pfx, queue_event_seq, queue_tick_seq)
    values (
        v_id,
        i_queue_name,
        'pgq.event_' || v_id,
        'pgq.event_' || v_id || '_id_seq',
        'pgq.event_' || v_id || '_tick_seq'
    )
    on conflict on constraint queue_name_uq do nothing
    returning * into v_queue;
    if not found then
        -- Another session created the queue between the check and the insert.
        return 0;
    end if;

    execute 'create sequence ' || v_queue.queue_tick_seq;
    execute 'create sequence ' || v_queue.queue_event_seq;
    execute 'create sequence ' || pgq._way_seq(v_queue);
    perform pgq._revoke_defaults('sequence'::text, s)
    from unnest(array[
        v_queue.queue_tick_seq, v_queue.queue_event_seq, pgq._way_seq(v_queue)]) as s;
    -- No other session sees the sequence before the row of the queue is committed.
    perform setval(pgq._way_seq(v_queue)::regclass, pgq._way(v_queue), true);
    execute format('create table %s () inherits (pgq.event_template)', v_queue.queue_data_pfx);
    perform pgq._revoke_defaults('table'::text, v_queue.queue_data_pfx);
    perform pgq._identify_rows(v_queue.queue_data_pfx);
    for v_nr in 0 .. v_queue.queue_ntables - 1 loop
        perform pgq._create_event_table(v_queue, v_nr);
    end loop;

    insert into pgq.queue_generation (gen_queue) values (v_id);
    perform pgq._generate_store_event();
    perform pgq.grant_perms(i_queue_name);
    perform pgq.ticker(i_queue_name);
    perform pgq.tune_storage(i_queue_name);
    return 1;
end;
$$;
