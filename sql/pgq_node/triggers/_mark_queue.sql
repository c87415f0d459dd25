create or replace function pgq_node._mark_queue()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Maintains pgq.queue.queue_replicated, which is true for a queue that is a node of a cascade.
 *
 * From producers without administrator rights such a queue accepts only events that replication
 * does not apply.
 *
 * A root proves its control events from the start; a branch does when its worker says so
 * (pgq.prove_forwarded), which the worker of an older version does not.
 */
declare
    v_name text := case tg_op when 'DELETE' then old.queue_name else new.queue_name end;
    v_node boolean := tg_op <> 'DELETE';
    v_queue pgq.queue;
begin
    update pgq.queue
    set queue_replicated = v_node
    where queue_name = v_name and queue_replicated <> v_node
    returning * into v_queue;
    if found and v_node then
        perform pgq._revoke_produce(v_queue);
    end if;
    if v_node and new.node_type = 'root' then
        perform pgq._expect_proofs(v_name);
    elsif tg_op <> 'UPDATE' or old.node_type <> new.node_type then
        update pgq.queue
        set queue_proven_from = null
        where queue_name = v_name and queue_proven_from is not null;
    end if;
    return null;
end;
$$;

-- Always: workers and commands write with the replica role, which disables other triggers.
create or replace trigger node_info_marks_queue
    after insert or delete or update of node_type on pgq_node.node_info
    for each row execute function pgq_node._mark_queue();
alter table pgq_node.node_info enable always trigger node_info_marks_queue;

-- Consumers of existing nodes: their owners are unknown.
insert into pgq.consumer_owner (own_queue, own_consumer, own_role, own_exclusive)
select q.queue_id, c.co_id, 'pgq_admin', true
from pgq_node.node_info as n
    join pgq.queue as q on q.queue_name = n.queue_name
    join pgq.registration as r on r.sub_queue = q.queue_id
    join pgq.consumer as c on c.co_id = r.sub_consumer
where c.co_name = '.global_watermark'
    or exists (
        select from pgq_node.subscriber_info as s
        where s.queue_name = n.queue_name and c.co_name in (s.worker_name, s.watermark_name))
on conflict on constraint own_pkey do nothing;

-- Nodes that existed before.  No role may have a right there that grant_produce() refuses, whoever gave it.
do $$
declare
    v_queue pgq.queue;
begin
    update pgq.queue as q
    set queue_replicated = true
    from pgq_node.node_info as n
    where n.queue_name = q.queue_name and not q.queue_replicated;
    for v_queue in
        select q.* from pgq.queue as q where q.queue_replicated
    loop
        perform pgq._revoke_produce(v_queue);
    end loop;
end;
$$;
