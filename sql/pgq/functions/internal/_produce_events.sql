create or replace function pgq._produce_events(
    queue_name text,
    ev_types text[],
    ev_datas text[],
    ev_extra1s text[],
    ev_extra2s text[],
    ev_extra3s text[],
    ev_extra4s text[],
    i_role name
)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Runs pgq.insert_events() for a role that may produce and is no administrator.
 *
 * It checks rights as _produce() does.
 */
declare
    v_count int8;
begin
    perform pgq._require_length(u.type, u.data, u.extra1, u.extra2, u.extra3, u.extra4)
    from unnest(ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s)
        as u (type, data, extra1, extra2, extra3, extra4)
    where greatest(
        octet_length(u.type), octet_length(u.data), octet_length(u.extra1),
        octet_length(u.extra2), octet_length(u.extra3), octet_length(u.extra4)
    ) > 1000000;
    v_count := pgq._insert_events(
        queue_name, ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s
    );
    perform pgq._require_producer(queue_name, e.type, e.extra1, i_role)
    from (
        select distinct u.type, u.extra1
        from unnest(ev_types, ev_extra1s) as u (type, extra1)
        where u.extra1 is not null or pgq._is_applied(u.type)) as e;
    return v_count;
end;
$$;
