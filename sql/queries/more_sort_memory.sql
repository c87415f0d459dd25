/*
 * At least 256 MB to build an index, until the end of the transaction.
 */
select pg_catalog.set_config('maintenance_work_mem', '256MB', true)
where pg_catalog.pg_size_bytes(pg_catalog.current_setting('maintenance_work_mem'))
    < pg_catalog.pg_size_bytes('256MB')
