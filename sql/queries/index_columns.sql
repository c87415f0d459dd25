-- The columns of a table's index, in their order; one row with NULL for an expression.
select a.attname
from pg_index as i
    join pg_class as c on c.oid = i.indexrelid
    cross join unnest(i.indkey::int2[]) with ordinality as k (attnum, place)
    left join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
where i.indrelid = %s
    and c.relname = %s
    and k.place <= i.indnkeyatts
order by k.place
