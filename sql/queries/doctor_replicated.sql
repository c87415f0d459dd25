-- Tables that this database has from a provider, as the queue names them and as they are named here.
select coalesce(t.dest_table, t.table_name) as name from londiste.table_info t where t.local
