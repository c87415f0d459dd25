create or replace function pgq._require_owner(
    i_queue_id int4,
    i_consumer_id int4,
    i_what text
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises 42501 unless the session may do i_what with the consumer (_may_consume).
 */
declare
    v_queue text;
    v_consumer text;
    v_role name;
begin
    if pgq._may_consume(i_queue_id, i_consumer_id, i_what) then
        return;
    end if;
    select q.queue_name, c.co_name, o.own_role
    into v_queue, v_consumer, v_role
    from pgq.queue as q
        join pgq.consumer as c on c.co_id = i_consumer_id
        left join pgq.consumer_owner as o on o.own_queue = q.queue_id and o.own_consumer = c.co_id
    where q.queue_id = i_queue_id;
    raise exception using
        errcode = '42501',
        message = format('consumer %s of queue %s belongs to %s', v_consumer, v_queue,
            coalesce('role ' || v_role, 'the administrators')),
        detail = format('role %s is neither a member of it nor of pgq_admin', pgq._session_role()),
        hint = format('as an administrator: select pgq.set_consumer_owner(%L, %L, %L)',
            v_queue, v_consumer, pgq._session_role());
end;
$$;
