create or replace function londiste.is_obsolete_partition(
    i_partition_table text,
    i_retention_period interval,
    i_partition_period text)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether all rows of a partition are older than the retention period.
 *
 * The function reads the period from the name: <parent>_YYYY[_MM[_DD[_HH]]], in the session's time
 * zone.  The result is false when the name has no such ending, or the retention period is null.
 *
 * i_partition_period -- year, month, day or hour (or yearly, monthly, daily, hourly).
 */
select coalesce(
    londiste._partition_start(i_partition_table, i_partition_period)
        + ('1 ' || londiste._partition_period(i_partition_period))::interval
        <= now() - i_retention_period,
    false);
$$;
