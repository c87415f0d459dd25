/*
 * The local tables of a queue, by their names here, and what captures them:
 * capture, logutriga, jsontriga, sqltriga, deny or none; for capture the form that was asked for;
 * the key that the trigger was given, NULL for none.
 */
select d.name,
    coalesce(g.kind, 'none'),
    case g.kind when 'capture' then coalesce(substring(g.args from 'form=(row|statement|auto)'), 'auto') end,
    convert_from(decode(substring(g.args from '\\000pkey=(.*?)\\000'), 'escape'), getdatabaseencoding())
from londiste.table_info as t
    cross join lateral (select coalesce(t.dest_table, t.table_name) as name) as d
    left join lateral (
        select encode(g.tgargs, 'escape') as args,
            case
                when o.nspname in ('londiste', 'londiste_capture') then 'capture'
                when encode(g.tgargs, 'escape') ~ '\\000deny\\000' then 'deny'
                else p.proname::text
            end as kind
        from pg_catalog.pg_trigger as g
            join pg_catalog.pg_proc as p on p.oid = g.tgfoid
            join pg_catalog.pg_namespace as o on o.oid = p.pronamespace
            cross join (
                select convert_to(%(queue)s, getdatabaseencoding()) || '\x00'::bytea) as w (first)
        where g.tgrelid = coalesce(
                londiste.find_table_oid(d.name),
                -- It was renamed.
                (select londiste.find_table_oid(r.new_name)
                 from londiste.renamed_tables(t.queue_name) as r
                 where r.table_name = t.table_name))
            and g.tgconstrindid = 0
            -- Another queue may capture the table, too.
            and substring(g.tgargs from 1 for length(w.first)) = w.first
            and (o.nspname in ('londiste', 'londiste_capture') and starts_with(p.proname, '_capture_')
                or g.tgname in (
                    londiste.trigger_name(t.queue_name),
                    'zzz_' || londiste.trigger_name(t.queue_name)))
        order by g.tgtype::int & 1 desc, g.tgname
        limit 1) as g on true
where t.queue_name = %(queue)s
    and t.local
order by t.nr
