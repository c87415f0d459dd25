create or replace function pgq.insert_events(
    queue_name text,
    ev_types text[],
    ev_datas text[],
    ev_extra1s text[] default null,
    ev_extra2s text[] default null,
    ev_extra3s text[] default null,
    ev_extra4s text[] default null
)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Inserts one event per array element, in the order of the elements.  Returns the number of events.
 *
 * The function inserts all events or none.  An array of extra fields is null or has the length of
 * the other arrays.  The limit of events per transaction counts each event.  Rights and refused
 * events are those of pgq.insert_event().
 */
begin
    if pg_has_role('pgq_admin', 'usage')
        or not has_function_privilege(
            'pgq._produce_events(text,text[],text[],text[],text[],text[],text[])', 'execute')
    then
        return pgq._insert_events(
            queue_name, ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s
        );
    end if;
    return pgq._produce_events(
        queue_name, ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s
    );
end;
$$;
