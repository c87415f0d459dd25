-- Event tables without the index by which batches are read: queue, schema, name, broken.
-- broken -- an index of its name exists, and cannot be used: creating it was interrupted.
-- %(queue)s -- one queue, or null for all.
select q.queue_name as queue, n.nspname as schema, c.relname as name,
    pg_catalog.to_regclass(
        pg_catalog.format('%%I.%%I', n.nspname, c.relname || '_txid_idx')) is not null as broken
from pgq.queue q
join pg_catalog.pg_inherits i on i.inhparent = pg_catalog.to_regclass(q.queue_data_pfx)
join pg_catalog.pg_class c on c.oid = i.inhrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where (%(queue)s::text is null or q.queue_name = %(queue)s::text)
    and not exists (
        select from pg_catalog.pg_index x
        join pg_catalog.pg_attribute a on a.attrelid = x.indrelid and a.attnum = x.indkey[0]
        where x.indrelid = c.oid
            and x.indisvalid
            and x.indpred is null
            and a.attname = 'ev_txid'
    )
order by q.queue_name, c.relname
