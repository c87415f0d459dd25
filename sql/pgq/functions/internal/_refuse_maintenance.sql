create or replace function pgq._refuse_maintenance(i_queue_name text)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises LD005 with the functions of a queue's extra_maint that are not called (_may_maintain).
 */
declare
    v_refused text;
begin
    select string_agg(m.name, ', ' order by m.nr)
    into v_refused
    from pgq.queue as q
        cross join unnest(q.queue_extra_maint) with ordinality as m (name, nr)
    where q.queue_name = i_queue_name and not pgq._may_maintain(m.name);
    if v_refused is not null then
        raise exception using
            errcode = 'LD005',
            message = format('extra_maint of queue %s is not called: %s', i_queue_name, v_refused),
            detail = format('each has to be a function (text) whose owner has the rights of role %s', current_user),
            hint = format('alter function %s(text) owner to %I', split_part(v_refused, ', ', 1), current_user);
    end if;
    return 0;
end;
$$;
