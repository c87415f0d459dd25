create or replace function londiste.retry_apply_errors(
    i_queue_name text,
    out ret_code int4,
    out ret_note text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Wakes the worker that waits before a failed event, so that it retries now.
 *
 * ret_code -- 200 the worker was woken; 304 no event stops replication on this node.
 */
declare
    v_count int4;
begin
    perform londiste._require_node(i_queue_name);
    perform pg_notify('londiste_tables', left(i_queue_name, 1000));
    select count(*) into v_count
    from londiste.apply_error e
    where e.queue_name = i_queue_name and e.state in ('halted', 'skip');
    if v_count = 0 then
        select 304, format('No event halts replication of queue %s here', i_queue_name)
            into ret_code, ret_note;
        return;
    end if;
    select 200, format('The worker of queue %s tries again now', i_queue_name)
        into ret_code, ret_note;
end;
$$;
