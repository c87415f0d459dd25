/*
 * Invalid indexes that an interrupted REINDEX CONCURRENTLY has left behind.
 *
 * %(index)s, %(table)s -- what was to be built anew, quoted; both NULL: a schema.
 * Runs with the search path of a script, so operators have their schema.
 */
select n.nspname as schema, c.relname as name
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) i.indexrelid
join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace
where not i.indisvalid
    and c.relname operator(pg_catalog.~) '_cc(new|old)[0-9]*$'
    and case
        when %(index)s::text is not null then i.indrelid operator(pg_catalog.=) (
            select o.indrelid
            from pg_catalog.pg_index o
            where o.indexrelid operator(pg_catalog.=) pg_catalog.to_regclass(%(index)s::text))
        when %(table)s::text is not null
            then i.indrelid operator(pg_catalog.=) pg_catalog.to_regclass(%(table)s::text)
        else not exists (
            select from pg_catalog.pg_stat_progress_create_index p
            where p.index_relid operator(pg_catalog.=) i.indexrelid)
    end
