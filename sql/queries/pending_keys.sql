-- Foreign keys that were dropped for copies and are to be restored: table as schema.name, key.
select p.from_table::text as from_table, p.fkey_name::text as name
from londiste.pending_fkeys p
order by 1, 2
