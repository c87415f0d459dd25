/*
 * Invalid indexes that an interrupted REINDEX CONCURRENTLY has left behind.
 *
 * %(index)s, %(table)s -- what was to be built anew, quoted; both NULL: a schema.
 */
select n.nspname as schema, c.relname as name
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where not i.indisvalid
    and c.relname ~ '_cc(new|old)[0-9]*$'
    and case
        when %(index)s::text is not null then i.indrelid = (
            select o.indrelid
            from pg_catalog.pg_index o
            where o.indexrelid = pg_catalog.to_regclass(%(index)s::text))
        when %(table)s::text is not null then i.indrelid = pg_catalog.to_regclass(%(table)s::text)
        else not exists (
            select from pg_catalog.pg_stat_progress_create_index p
            where p.index_relid = i.indexrelid)
    end
