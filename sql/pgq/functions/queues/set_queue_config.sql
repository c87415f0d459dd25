create or replace function pgq.set_queue_config(
    x_queue_name text,
    x_param_name text,
    x_param_value text
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Sets one parameter of a queue.  Returns 1.
 *
 * x_param_name -- a parameter that get_queue_config() lists.
 * x_param_value -- the value as text, in the notation of the parameter's type.  Null means no
 *     limit, or no function, and only some parameters accept it.
 *
 * A change takes effect with the next tick, insert or maintenance.  A change of ntables takes
 * effect at once.  The function refuses to drop event tables that are still needed.
 */
declare
    v_param record;
    v_value text;
    v_bad boolean;
    v_range text;
begin
    if x_queue_name is null or x_param_name is null then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            hint = 'set the queue and the parameter';
    end if;
    perform 1 from pgq.queue where queue_name = x_queue_name;
    if not found then
        perform pgq._raise_no_queue('No such event queue', x_queue_name);
    end if;

    select * into v_param from pgq._queue_parameters() where name = x_param_name;
    if not found then
        raise exception using
            errcode = 'LD005',
            message = format('cannot change parameter "%s"', x_param_name),
            hint = 'parameters: '
                || (select string_agg(name, ', ' order by nr) from pgq._queue_parameters());
    end if;
    if x_param_value is null and not v_param.may_be_null then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            detail = format('parameter %s needs a value', x_param_name),
            hint = format('use a value of type %s', v_param.type);
    end if;

    v_range := concat_ws(', ', v_param.lowest || ' or more', v_param.highest || ' or less');
    begin
        execute format(
            'select ($1::%1$s)::text, coalesce($1::%1$s < $2::%1$s or $1::%1$s > $3::%1$s, false)',
            v_param.type
        )
        into v_value, v_bad
        using x_param_value, v_param.lowest, v_param.highest;
    exception
        when data_exception then
            raise exception using
                errcode = 'LD005',
                message = format('bad value for parameter %s: %s', x_param_name, x_param_value),
                detail = sqlerrm,
                hint = format('use a value of type %s', v_param.type);
    end;
    if v_bad then
        raise exception using
            errcode = 'LD005',
            message = format('bad value for parameter %s: %s', x_param_name, x_param_value),
            detail = format('parameter %s has to be %s', x_param_name, v_range),
            hint = case when v_param.may_be_null
                then format('give %s, or null for no limit', v_range)
                else format('give %s', v_range) end;
    end if;

    if x_param_name = 'ntables' then
        perform pgq._set_ntables(x_queue_name, x_param_value::int4);
        return 1;
    end if;
    execute format(
        'update pgq.queue set %I = $1::%s where queue_name = $2',
        'queue_' || x_param_name,
        v_param.type
    )
    using x_param_value, x_queue_name;
    return 1;
end;
$$;
