/*
 * Why a trigger with these words would be refused for a table, and the statement that creates it with
 * others; no row when nothing is wrong with them.
 *
 * %(table)s -- the name in the queue.  %(dest)s -- the name in this database.
 */
select f.argument, f.fault,
    'select * from londiste.create_trigger('
        || concat_ws(', ', quote_literal(%(queue)s), quote_literal(%(table)s), quote_literal((%(words)s::text[])::text),
            quote_literal(%(dest)s), quote_literal(%(node_type)s)) || ')'
from londiste._argument_fault(londiste.find_table_oid(%(dest)s), londiste._with_path(%(words)s::text[])) as f
where f.fault is not null
    and londiste.find_table_oid(%(dest)s) is not null
