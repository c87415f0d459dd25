-- The columns of a table %(table)s (a regclass): name, whether it is generated, whether it is of the primary key.
select a.attname::pg_catalog.text, a.attgenerated <> '',
    exists (
        select
        from pg_catalog.pg_index as i
        where i.indrelid = a.attrelid
            and i.indisprimary
            and a.attnum = any ((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts - 1]))
from pg_catalog.pg_attribute as a
where a.attrelid = %(table)s::pg_catalog.regclass
    and a.attnum > 0
    and not a.attisdropped
order by a.attnum
