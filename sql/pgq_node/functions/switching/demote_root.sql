create or replace function pgq_node.demote_root(
    i_queue_name text,
    i_step int4,
    i_new_provider text,
    out ret_code int4,
    out ret_note text,
    out last_tick int8)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes the root a branch in three transactions, for other programs; Londiste uses close_root().
 *
 * i_step -- 1: refuse new events and ticks.  2: wait for writers and create the last tick.  3: become
 *     a branch that reads from i_new_provider.
 * last_tick -- in steps 2 and 3 the last tick.
 *
 * ret_code -- 200 done; 301 not a root; 404 this database is no node of the queue, or unknown
 *     provider.
 */
declare
    v_node pgq_node.node_info;
    v_queue pgq.queue;
begin
    select * into v_node from pgq_node.node_info where queue_name = i_queue_name for update;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_node.node_type <> 'root' then
        select 301, 'Node is not root: ' || v_node.node_type into ret_code, ret_note;
        return;
    end if;
    if i_step > 1 then
        select * into v_queue from pgq.queue where queue_name = i_queue_name;
        if not (v_queue.queue_disable_insert and v_queue.queue_external_ticker) then
            raise exception using
                errcode = 'LD100',
                message = 'steps in wrong order',
                detail = format('queue %s is not closed', i_queue_name),
                hint = 'first step 1, in a transaction of its own';
        end if;
    end if;
    if i_step = 1 then
        update pgq.queue
        set queue_disable_insert = true,
            queue_external_ticker = true
        where queue_name = i_queue_name;
        select 200, 'Step 1: Writing disabled for: ' || i_queue_name into ret_code, ret_note;
    elsif i_step = 2 then
        perform pgq._require_read_committed();
        execute format('lock table %s in exclusive mode', pgq.quote_fqname(v_queue.queue_data_pfx));
        perform 1 from pgq.queue q where q.queue_id = v_queue.queue_id for no key update;
        last_tick := pgq._insert_tick(v_queue, null::txid_snapshot);
        perform pgq_node._fence(i_queue_name, true);
        select 200, 'Step 2: Inserted last tick: ' || last_tick::text into ret_code, ret_note;
    elsif i_step = 3 then
        perform 1 from pgq_node.node_location l
        where l.queue_name = i_queue_name and l.node_name = i_new_provider;
        if not found then
            select 404, 'Unknown node: ' || coalesce(i_new_provider, 'NULL') into ret_code, ret_note;
            return;
        end if;
        select max(t.tick_id) into last_tick from pgq.tick t where t.tick_queue = v_queue.queue_id;
        update pgq_node.node_info set node_type = 'branch' where queue_name = i_queue_name;
        update pgq_node.local_state
        set provider_node = i_new_provider,
            last_tick_id = demote_root.last_tick,
            uptodate = false
        where queue_name = i_queue_name and consumer_name = v_node.worker_name;
        perform pgq.forget_known_sources(i_queue_name, v_node.worker_name);
        select 200, 'Step 3: Demoted root to branch' into ret_code, ret_note;
    else
        raise exception using
            errcode = 'LD005',
            message = 'incorrect step number',
            detail = format('step %s', coalesce(i_step::text, 'NULL')),
            hint = 'steps are 1, 2 and 3';
    end if;
end;
$$;
