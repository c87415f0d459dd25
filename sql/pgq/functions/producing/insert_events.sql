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
declare
    v_count int8 := cardinality(ev_types);
begin
    if pg_has_role('pgq_admin', 'usage')
        and exists (select from unnest(ev_types) as t (type) where pgq._is_control(t.type))
        and v_count = all (array[
            cardinality(ev_datas),
            coalesce(cardinality(ev_extra1s), v_count),
            coalesce(cardinality(ev_extra2s), v_count),
            coalesce(cardinality(ev_extra3s), v_count),
            coalesce(cardinality(ev_extra4s), v_count)])
    then
        -- One by one: each control event is proven.  Arrays that do not fit are an error below.
        perform pgq.insert_event(
            queue_name, e.type, e.data, e.extra1, e.extra2, e.extra3, e.extra4)
        from (
            select *
            from unnest(ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s)
                with ordinality
                as u (type, data, extra1, extra2, extra3, extra4, nr)
            order by u.nr
        ) as e;
        return v_count;
    end if;
    if pg_has_role('pgq_admin', 'usage')
        or not has_function_privilege(
            'pgq._produce_events(text,text[],text[],text[],text[],text[],text[],name)', 'execute')
    then
        return pgq._insert_events(
            queue_name, ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s
        );
    end if;
    return pgq._produce_events(
        queue_name, ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s,
        current_user
    );
end;
$$;
