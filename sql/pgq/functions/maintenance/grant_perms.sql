create or replace function pgq.grant_perms(x_queue_name text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Sets the privileges on a queue's tables to those of pgq.event_template.  Returns 1.
 *
 * All roles can read the queue's sequences; administrators can take event ids.  In a queue
 * that is a node of a cascade only administrators can write, whatever pgq.event_template grants.
 * New event tables also get the grants of pgq.grant_produce() for the queue.
 */
declare
    v_queue pgq.queue;
    v_table text;
begin
    select * into v_queue from pgq.queue where queue_name = x_queue_name;
    if not found then
        perform pgq._raise_no_queue('Queue not found', x_queue_name);
    end if;

    execute format(
        'grant select on %s, %s, %s to public',
        pgq.quote_fqname(v_queue.queue_event_seq),
        pgq.quote_fqname(v_queue.queue_tick_seq),
        pgq._way_seq(v_queue)
    );
    execute format(
        'grant usage on %s to pgq_admin', pgq.quote_fqname(v_queue.queue_event_seq)
    );

    foreach v_table in array
        v_queue.queue_data_pfx || array(select t from pgq._event_tables(v_queue) as t)
    loop
        perform pgq._grant_perms_from(
            'pgq', 'event_template', split_part(v_table, '.', 1), split_part(v_table, '.', 2)
        );
        if not v_queue.queue_replicated then
            perform pgq._grant_perms_from(
                'pgq', split_part(v_queue.queue_data_pfx || '_0', '.', 2),
                split_part(v_table, '.', 1), split_part(v_table, '.', 2)
            );
        end if;
    end loop;
    if v_queue.queue_replicated then
        perform pgq._revoke_produce(v_queue);
    end if;
    return 1;
end;
$$;
