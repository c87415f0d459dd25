/*
 * Foreign keys from and to one table; a key to itself comes once.
 *
 * %(oid)s -- the table.
 */
select
    k.conname as name,
    fn.nspname as from_schema,
    f.relname as from_name,
    tn.nspname as to_schema,
    t.relname as to_name,
    pg_catalog.pg_get_constraintdef(k.oid) as definition,
    k.coninhcount > 0 or k.conparentid <> 0 as is_inherited
from pg_catalog.pg_constraint k
join pg_catalog.pg_class f on f.oid = k.conrelid
join pg_catalog.pg_namespace fn on fn.oid = f.relnamespace
join pg_catalog.pg_class t on t.oid = k.confrelid
join pg_catalog.pg_namespace tn on tn.oid = t.relnamespace
where k.contype = 'f'
    and (k.conrelid = %(oid)s::oid or k.confrelid = %(oid)s::oid)
order by fn.nspname, f.relname, k.conname
