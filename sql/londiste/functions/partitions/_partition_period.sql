create or replace function londiste._partition_period(i_period text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the unit of a period: year, month, day or hour.
 *
 * It accepts yearly, monthly, daily, hourly, too.
 */
begin
    case lower(i_period)
        when 'year', 'yearly' then return 'year';
        when 'month', 'monthly' then return 'month';
        when 'day', 'daily' then return 'day';
        when 'hour', 'hourly' then return 'hour';
        else
            raise exception using
                errcode = 'LD005',
                message = format('unknown partition period: %s', coalesce(i_period, 'NULL')),
                hint = 'use year, month, day or hour';
    end case;
end;
$$;
