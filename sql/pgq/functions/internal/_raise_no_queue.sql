create or replace function pgq._raise_no_queue(i_message text, i_queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises LD001 with the message that the caller's interface promises.
 *
 * The detail names the missing queue, the hint the existing queues.
 */
declare
    v_names text;
begin
    select string_agg(q.queue_name, ', ' order by q.queue_name)
    into v_names
    from (select queue_name from pgq.queue order by queue_name limit 10) as q;
    raise exception using
        errcode = 'LD001',
        message = i_message,
        detail = format(
            'database %s has no queue %s',
            current_database(),
            coalesce(quote_literal(i_queue_name), 'without a name')
        ),
        hint = coalesce(
            'queues here: ' || v_names,
            'create it first: select pgq.create_queue(name)'
        );
end;
$$;
