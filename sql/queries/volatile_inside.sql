-- Those of the names %(names)s that are functions of the server and give other values on each node.
select distinct p.proname::text as name
from pg_catalog.pg_proc p
where p.proname = any (%(names)s::name[])
    and p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace
    and p.prokind in ('f', 'w')
    and (p.provolatile = 'v'
            -- They change nothing in a row.
            and p.proname !~ '^(set_config|setval|pg_notify|pg_sleep.*|pg_(try_)?advisory.*)$'
        or p.proname in (
            'now', 'transaction_timestamp', 'statement_timestamp', 'txid_current',
            'pg_current_xact_id', 'txid_current_snapshot', 'pg_current_snapshot', 'inet_server_addr',
            'inet_server_port', 'current_database', 'version', 'pg_postmaster_start_time'))
order by 1
