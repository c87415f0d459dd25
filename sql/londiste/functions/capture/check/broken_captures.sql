create or replace function londiste.broken_captures(
    i_queue_name text,
    out table_name text,
    out argument text,
    out fault text,
    out help text)
returns setof record
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the tables of a queue whose writes fail, because an argument of the trigger does not fit.
 *
 * A renamed or dropped column, for example, leaves when=COLUMN > 1 with a name that nothing has.
 *
 * Those of a branch fail when it has become the root.
 *
 * table_name -- the table in this database.  fault -- NULL: not known, because another session locks a table
 *     that the argument names.  help -- the statement that creates the trigger again with
 *     the same arguments.  The argument has to be corrected in it first.
 */
select c.table_name, f.argument, f.fault,
    'select londiste.create_capture('
        || concat_ws(', ', quote_literal(i_queue_name), quote_literal(c.table_name),
            quote_literal(c.args[3:]::text), quote_literal(nullif(c.args[2], c.table_name))) || ')'
from londiste._captures(i_queue_name) as c
    -- Without the columns of pkey= it takes the primary key.
    cross join lateral londiste._argument_fault(c.relid,
        array(select a from unnest(c.args[3:]) as a where not starts_with(a, 'pkey='))) as f
where f.argument is not null
union all
select w.name, f.argument, f.fault,
    'select * from londiste.create_trigger('
        || concat_ws(', ', quote_literal(i_queue_name), quote_literal(r.table_name),
            quote_literal((a.args[2:] || format('tgflags=%s%s%s%s%s',
                case p.proname when 'logutriga' then 'L' when 'jsontriga' then 'J' else 'Q' end,
                -- bits: 2 before, 4 insert, 8 delete, 16 update
                case when t.tgtype::int & 2 > 0 then 'B' end,
                case when t.tgtype::int & 4 > 0 then 'I' end,
                case when t.tgtype::int & 16 > 0 then 'U' end,
                case when t.tgtype::int & 8 > 0 then 'D' end))::text),
            quote_literal(w.name), quote_literal('root')) || ')'
from londiste.table_info as r
    cross join lateral (select coalesce(r.dest_table, r.table_name)) as w (name)
    join pg_trigger as t on t.tgrelid = londiste.find_table_oid(w.name)
    join pg_proc as p on p.oid = t.tgfoid
    cross join lateral londiste._trigger_args(t.tgargs) as a (args)
    cross join lateral londiste._argument_fault(t.tgrelid, a.args[2:]) as f
where r.queue_name = i_queue_name
    and r.local
    and p.pronamespace = 'pgq'::regnamespace
    and p.proname in ('logutriga', 'jsontriga', 'sqltriga')
    and t.tgenabled <> 'D'
    and t.tgname in (londiste.trigger_name(i_queue_name), left('zzz_' || londiste.trigger_name(i_queue_name), 63))
    and a.args[1] = i_queue_name
    and 'deny' <> all (a.args)
    and f.argument is not null;
$$;
