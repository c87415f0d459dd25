create or replace function pgq._require_ticks(i_queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises an error unless this session may create ticks for the queue now.
 */
declare
    v_queue pgq.queue;
begin
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    if not found then
        perform pgq._raise_no_queue('no such queue', i_queue_name);
    end if;
    if v_queue.queue_external_ticker then
        raise exception using
            errcode = 'LD103',
            message = 'This queue has external tick source.',
            detail = format('ticks of queue %s come with its events', i_queue_name),
            hint = 'run the ticker on the root node of the cascade';
    end if;
    if v_queue.queue_ticker_paused then
        raise exception using
            errcode = 'LD103',
            message = 'Ticker has been paused for this queue',
            detail = format('queue %s keeps its events until its ticks continue', i_queue_name),
            hint = format('select pgq.set_queue_config(%L, %L, %L)',
                          i_queue_name, 'ticker_paused', 'false');
    end if;
    perform pgq._require_read_committed();
    perform pgq._require_home();
end;
$$;
