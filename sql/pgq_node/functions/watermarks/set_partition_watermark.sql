create or replace function pgq_node.set_partition_watermark(
    i_combined_queue_name text,
    i_part_queue_name text,
    i_watermark int8,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Moves a part on a branch of its combined queue to a tick.
 *
 * The worker of the combined queue calls it when all events of the part up to the tick have arrived
 * through the combined queue.  The part's own worker may read up to there.
 *
 * ret_code -- 200 moved; 201 the combined queue is no branch on this node, or the part no leaf that
 *     merges into it; 401 the part has no worker.
 */
declare
    v_worker text;
begin
    select p.worker_name into v_worker
    from pgq_node.node_info c
        join pgq_node.node_info p on p.combined_queue = c.queue_name
    where c.queue_name = i_combined_queue_name
        and c.node_type = 'branch'
        and p.queue_name = i_part_queue_name
        and p.node_type = 'leaf';
    if not found then
        select 201, 'Part-queue does not exist' into ret_code, ret_note;
        return;
    end if;
    update pgq_node.local_state
    set last_tick_id = i_watermark
    where queue_name = i_part_queue_name and consumer_name = v_worker;
    if not found then
        select 401, 'Worker registration is missing: ' || v_worker into ret_code, ret_note;
        return;
    end if;
    select 200, 'Watermark set' into ret_code, ret_note;
end;
$$;
