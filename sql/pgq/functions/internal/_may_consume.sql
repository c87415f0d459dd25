create or replace function pgq._may_consume(
    i_queue_id int4,
    i_consumer_id int4,
    i_what text
)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether the session may use, move or end a consumer.
 *
 * i_what -- use: open and finish batches; move: set another position, pause it, decide about its dead
 *     letters; end: unregister it.
 *
 * The owner and administrators may do all.  Every role that may read queues can use consumers that an
 * administrator has registered, except those of nodes.  It can use and move consumers that were
 * registered before owners were stored.  Raises 42501 for code of a table (_caller).
 */
declare
    v_caller name := pgq._caller();
    v_own pgq.consumer_owner;
begin
    if pg_has_role(v_caller, 'pgq_admin', 'usage')
        or pg_has_role(v_caller,
            (select c.relowner from pg_class as c where c.oid = 'pgq.queue'::regclass), 'usage')
    then
        return true;
    end if;
    select * into v_own
    from pgq.consumer_owner
    where own_queue = i_queue_id and own_consumer = i_consumer_id;
    if not found then
        return i_what <> 'end';
    end if;
    return exists (
        select from pg_roles as r
        where r.rolname = v_own.own_role
            and (pg_has_role(v_caller, r.oid, 'usage')
                or i_what = 'use' and not v_own.own_exclusive
                    and pg_has_role(r.oid, 'pgq_admin', 'usage')));
end;
$$;
