create or replace function pgq.set_consumer_owner(
    i_queue_name text,
    i_consumer_name text,
    i_role name
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes a role the owner of a consumer.  Returns 1.
 *
 * Only members of the owning role and administrators can move or unregister the consumer.  The
 * first owner of a consumer is the role that registers it.
 */
declare
    v_sub pgq.registration := pgq._require_subscription(i_queue_name, i_consumer_name);
begin
    if not exists (select from pg_roles where rolname = i_role) then
        raise exception using
            errcode = 'LD005',
            message = format('no such role: %s', coalesce(i_role, 'NULL')),
            hint = 'list the roles: select rolname from pg_roles';
    end if;
    insert into pgq.consumer_owner as o (own_queue, own_consumer, own_role)
    values (v_sub.sub_queue, v_sub.sub_consumer, i_role)
    on conflict on constraint own_pkey do update set own_role = excluded.own_role;
    return 1;
end;
$$;
