/*
 * Whether this session is encrypted by GSSAPI; TLS the client knows by itself.
 */
select g.encrypted
from pg_catalog.pg_stat_gssapi g
where g.pid = pg_catalog.pg_backend_pid()
