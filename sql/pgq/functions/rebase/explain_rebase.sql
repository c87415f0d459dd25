create or replace function pgq.explain_rebase(
    out queue_name text,
    out reason text,
    out ticks int8,
    out events int8
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns what rebase_queues() would do, one row per queue.  Changes nothing, blocks no session.
 *
 * reason -- why the queue needs a rebase; null when its transaction ids fit this server.
 * ticks, events -- number of rows to rewrite; null for a queue that needs no rebase.
 */
declare
    v_queue pgq.queue;
begin
    for v_queue in select q.* from pgq.queue q order by q.queue_name loop
        queue_name := v_queue.queue_name;
        reason := pgq._rebase_reason(v_queue);
        ticks := null;
        events := null;
        if reason is not null then
            select count(*) into ticks from pgq.tick t where t.tick_queue = v_queue.queue_id;
            execute format('select count(*) from %s', pgq.quote_fqname(v_queue.queue_data_pfx))
            into events;
        end if;
        return next;
    end loop;
end;
$$;
