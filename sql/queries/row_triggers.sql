-- The triggers for rows that write events by the three functions of pgq: table, trigger, function, whether
-- it fires before the change, and its arguments.
select t.tgrelid::pg_catalog.regclass::pg_catalog.text as table_name, t.tgname, p.proname, (t.tgtype & 2) <> 0,
    array(
        select pg_catalog.convert_from(pg_catalog.decode(a.arg, 'hex'), pg_catalog.getdatabaseencoding())
        from pg_catalog.regexp_split_to_table(
            pg_catalog.regexp_replace(pg_catalog.encode(t.tgargs, 'hex'), '(..)', '\1 ', 'g'), '00 ')
            with ordinality as b (bytes, place)
            cross join lateral (select pg_catalog.replace(b.bytes, ' ', '')) as a (arg)
        where b.place <= t.tgnargs
        order by b.place)
from pg_catalog.pg_trigger as t
    join pg_catalog.pg_proc as p on p.oid = t.tgfoid
where p.pronamespace = pg_catalog.to_regnamespace('pgq')
    and p.proname in ('sqltriga', 'logutriga', 'jsontriga')
    and (t.tgtype & 1) <> 0
    and t.tgparentid = 0
    and t.tgconstrindid = 0
order by 1, 2
