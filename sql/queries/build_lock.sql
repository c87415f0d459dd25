/*
 * The lock of who builds one index of a table, until the end of the transaction.
 *
 * %(what)s -- queue, table and index.
 */
select pg_catalog.pg_advisory_xact_lock(
    pg_catalog.hashtextextended('londiste copy index ' || %(what)s, 0))
