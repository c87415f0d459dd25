-- Tables whose triggers write into a queue, as regclass texts; a trigger's first argument is the queue.
select distinct t.tgrelid::regclass::text
from pg_trigger t
join pg_proc p on p.oid = t.tgfoid
join pg_namespace n on n.oid = p.pronamespace
where t.tgconstrindid = 0
    and t.tgparentid = 0
    and t.tgenabled <> 'D'
    and n.nspname in ('pgq', 'londiste', 'londiste_capture')
    and t.tgargs <> ''
    and convert_from(
        substring(t.tgargs from 1 for position('\x00'::bytea in t.tgargs) - 1),
        getdatabaseencoding()
    ) = %(queue)s
order by 1
