create or replace function pgq.insert_event(
    queue_name text,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
)
returns int8
language plpgsql
as $$
/*
 * Inserts an event and returns its id.
 *
 * All producers except bulk loaders use this function.  Consumers get the event if and only if the
 * transaction commits.
 *
 * Allowed to members of pgq_writer, and to roles with a grant of pgq.grant_produce().  In a queue
 * that is a node of a cascade, these roles may insert only events that replication does not
 * apply.  Other events raise 42501.  Control events of administrators are proven to subscribers.
 *
 * The function runs with the rights of the caller, so that the server checks them.  It does not
 * pin search_path, because that would cost as much as the insert.  Every name in it is qualified.
 */
begin
    if pg_catalog.pg_has_role('pgq_admin'::pg_catalog.name, 'usage'::pg_catalog.text) then
        -- As in pgq._is_control(), whose call would cost every event.
        if ev_type operator(pg_catalog.=) 'EXECUTE'::pg_catalog.text
            or pg_catalog.starts_with(ev_type, 'pgq.'::pg_catalog.text)
            or pg_catalog.starts_with(ev_type, 'londiste.'::pg_catalog.text)
        then
            return pgq._prove_event(
                queue_name,
                pgq._insert_event(
                    queue_name, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
                ),
                ev_type
            );
        end if;
        return pgq._insert_event(
            queue_name, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
        );
    elsif pg_catalog.has_function_privilege(
        'pgq._produce(text,text,text,text,text,text,text,name)'::pg_catalog.regprocedure::pg_catalog.oid,
        'execute'::pg_catalog.text)
    then
        return pgq._produce(
            queue_name, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4,
            current_user
        );
    end if;
    return pgq.insert_event_raw(
        queue_name, null::pg_catalog.int8, null::pg_catalog.timestamptz, null::pg_catalog.int4,
        null::pg_catalog.int4, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    );
end;
$$;

create or replace function pgq.insert_event(queue_name text, ev_type text, ev_data text)
returns int8
language plpgsql
as $$
/*
 * With three arguments, the function inserts an event without extra fields.
 */
begin
    return pgq.insert_event(
        queue_name, ev_type, ev_data, null::pg_catalog.text, null::pg_catalog.text,
        null::pg_catalog.text, null::pg_catalog.text
    );
end;
$$;
