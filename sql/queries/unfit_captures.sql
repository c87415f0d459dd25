/*
 * The native captures of this database that londiste.create_capture() would refuse to make again.
 *
 * %(stale)s -- only of tables that have changed since: those that londiste.refresh_captures() leaves out.
 */
select c.table_name as "table", c.args[1] as queue, f.argument, f.fault, h.help,
    h.help || ' from pgq.queue where queue_name = ' || quote_literal(c.args[1]) as in_script
from londiste._captures(null::text) as c
    cross join lateral (
        select 'select londiste.create_capture('
            || concat_ws(', ', quote_literal(c.args[1]), quote_literal(c.table_name),
                quote_literal(c.args[3:]::text), quote_literal(nullif(c.args[2], c.table_name))) || ')'
    ) as h (help)
    join pg_catalog.pg_proc as p on p.oid = c.function_id
    cross join lateral londiste._argument_fault(c.relid, c.args[3:]) as f
where f.fault is not null
    and (not %(stale)s
        or position(quote_literal(londiste._capture_signature(c.relid)) in p.prosrc) = 0)
order by 1, 2
