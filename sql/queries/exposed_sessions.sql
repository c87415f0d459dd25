-- Sessions of this program in this database that are neither encrypted nor local, by client: the
-- client's address, and the names of the sessions.  Those of other users are seen by members of
-- pg_read_all_stats only.
select
    host(a.client_addr) as client,
    string_agg(distinct a.application_name, ', ' order by a.application_name) as names
from pg_catalog.pg_stat_activity a
join pg_catalog.pg_stat_ssl s on s.pid = a.pid and not s.ssl
left join pg_catalog.pg_stat_gssapi g on g.pid = a.pid
where a.datname = current_database()
    and a.application_name like 'londiste%'
    and not a.client_addr <<= '127.0.0.0/8'
    and a.client_addr <> '::1'
    and not coalesce(g.encrypted, false)
group by a.client_addr
order by a.client_addr
