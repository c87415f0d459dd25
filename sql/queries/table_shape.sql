/*
 * The shape of a table: another value after each DDL that may change its rows without an event.
 *
 * %(name)s -- the table, quoted.  Null: it does not exist.
 */
select pg_catalog.md5(pg_catalog.string_agg(part.shape, ' ' order by part.oid))
from (
    select
        c.oid,
        pg_catalog.concat_ws(
            ':', c.oid, c.relfilenode,
            (
                select pg_catalog.string_agg(
                    pg_catalog.concat_ws(
                        '/', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attisdropped,
                        a.atthasmissing),
                    ',' order by a.attnum)
                from pg_catalog.pg_attribute a
                where a.attrelid = c.oid and a.attnum > 0
            )
        ) as shape
    from pg_catalog.pg_class c
    where c.oid = pg_catalog.to_regclass(%(name)s)
        or c.oid in (
            select p.relid
            from pg_catalog.pg_partition_tree(pg_catalog.to_regclass(%(name)s)) p
        )
) part
