/*
 * Memory and helpers for building an index, until the end of the transaction.
 *
 * %(memory)s -- kilobytes; %(share)s -- how many indexes are built at a time: together they have as
 * many helpers as the server's settings give to one.
 */
select
    pg_catalog.set_config('maintenance_work_mem', %(memory)s::text || 'kB', true),
    pg_catalog.set_config(
        'max_parallel_maintenance_workers',
        (pg_catalog.current_setting('max_parallel_maintenance_workers')::int / %(share)s)::text,
        true)
