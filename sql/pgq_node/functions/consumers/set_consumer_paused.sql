create or replace function pgq_node.set_consumer_paused(
    i_queue_name text,
    i_consumer_name text,
    i_paused boolean,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Pauses or resumes a consumer.  The consumer confirms it by uptodate = true.
 *
 * ret_code -- 200 stored; 201 no change (uptodate keeps its value); 404 unknown consumer.
 */
declare
    v_paused boolean;
    v_word text := case when i_paused then 'paused' else 'resumed' end;
begin
    select s.paused into v_paused
    from pgq_node.local_state s
    where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name
    for update;
    if not found then
        select 404, 'Unknown consumer: ' || coalesce(i_queue_name, 'NULL') || '/'
            || coalesce(i_consumer_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_paused = i_paused then
        select 201, 'Consumer already ' || v_word into ret_code, ret_note;
        return;
    end if;
    update pgq_node.local_state
    set paused = i_paused,
        uptodate = false
    where queue_name = i_queue_name and consumer_name = i_consumer_name;
    select 200, 'Consumer tagged as ' || v_word into ret_code, ret_note;
end;
$$;
