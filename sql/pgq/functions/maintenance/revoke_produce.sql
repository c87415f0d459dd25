create or replace function pgq.revoke_produce(i_queue_name text, i_role name)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Revokes the grant of pgq.grant_produce().  Returns 1.
 *
 * Raises LD005 without a role.
 */
declare
    v_queue pgq.queue := pgq._require_queue(i_queue_name);
    v_role text := quote_ident(i_role);
begin
    if i_role is null then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            hint = 'set the name of the role';
    end if;
    execute format('revoke insert on %s from %s', pgq._queue_tables(v_queue), v_role);
    execute format('revoke usage on sequence %s from %s',
        pgq.quote_fqname(v_queue.queue_event_seq), v_role);
    return 1;
end;
$$;
