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
 * Sets one parameter of a queue; the value is text in the form of the column's type.
 *
 * Parameters: ticker_max_count, ticker_max_lag, ticker_idle_period, ticker_paused,
 * rotation_period, external_ticker; also per_tx_limit (null for no limit), disable_insert,
 * extra_maint and max_retries (null for no limit).  Takes effect with the next tick, insert or maintenance.
 */
declare
    v_type text;
begin
    if x_queue_name is null or x_param_name is null then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            hint = 'name the queue and the parameter';
    end if;
    perform 1 from pgq.queue where queue_name = x_queue_name;
    if not found then
        perform pgq._raise_no_queue('No such event queue', x_queue_name);
    end if;

    v_type := case x_param_name
        when 'ticker_max_count' then 'int4'
        when 'ticker_max_lag' then 'interval'
        when 'ticker_idle_period' then 'interval'
        when 'ticker_paused' then 'boolean'
        when 'rotation_period' then 'interval'
        when 'external_ticker' then 'boolean'
        when 'per_tx_limit' then 'int4'
        when 'disable_insert' then 'boolean'
        when 'extra_maint' then 'text[]'
        when 'max_retries' then 'int4'
    end;
    if v_type is null then
        raise exception using
            errcode = 'LD005',
            message = format('cannot change parameter "%s"', x_param_name),
            hint = 'parameters: ticker_max_count, ticker_max_lag, ticker_idle_period, '
                'ticker_paused, rotation_period, external_ticker, per_tx_limit, '
                'disable_insert, extra_maint, max_retries';
    end if;
    if x_param_value is null and x_param_name not in ('per_tx_limit', 'extra_maint', 'max_retries')
    then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            detail = format('parameter %s needs a value', x_param_name),
            hint = format('give a value of type %s', v_type);
    end if;

    begin
        execute format(
            'update pgq.queue set %I = $1::%s where queue_name = $2',
            'queue_' || x_param_name,
            v_type
        )
        using x_param_value, x_queue_name;
    exception
        when data_exception then
            raise exception using
                errcode = 'LD005',
                message = format('bad value for parameter %s: %s', x_param_name, x_param_value),
                detail = sqlerrm,
                hint = format('give a value of type %s', v_type);
    end;
    return 1;
end;
$$;
