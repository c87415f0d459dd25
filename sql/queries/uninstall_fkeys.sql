-- Foreign keys that a copy has dropped and nobody has restored; their definitions are stored here alone.
select p.from_table, p.fkey_name, p.fkey_def
from londiste.pending_fkeys as p
where londiste.find_table_oid(p.from_table) is not null
    and londiste.find_table_oid(p.to_table) is not null
order by 1, 2;
