/*
 * Whether an index is there, and valid; no row: it is not there.
 *
 * %(index)s -- its name, quoted; %(table)s -- that of its table, in whose schema it is looked for when
 * its own name has none; NULL: in the search path.
 * Runs with the search path of a script, so operators have their schema.
 */
select n.nspname as schema, c.relname as name, i.indisvalid and i.indisready as valid
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace
join pg_catalog.pg_index i on i.indexrelid operator(pg_catalog.=) c.oid
where case
    when %(table)s::text is null
        then c.oid operator(pg_catalog.=) pg_catalog.to_regclass(%(index)s::text)
    else i.indrelid operator(pg_catalog.=) pg_catalog.to_regclass(%(table)s::text)
        and pg_catalog.quote_ident(c.relname) operator(pg_catalog.=) pg_catalog.quote_ident(
            (pg_catalog.parse_ident(%(index)s::text))[
                pg_catalog.array_length(pg_catalog.parse_ident(%(index)s::text), 1)])
end
