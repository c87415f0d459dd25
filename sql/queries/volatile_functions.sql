-- Those of the names %(names)s that are functions whose values differ between nodes.
select distinct p.proname::text as name
from pg_catalog.pg_proc p
where p.proname = any (%(names)s::name[])
    and (p.provolatile = 'v'
        -- Stable, and of another time or transaction on each node.
        or p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace and p.proname in (
            'now', 'transaction_timestamp', 'statement_timestamp', 'txid_current',
            'pg_current_xact_id', 'txid_current_snapshot', 'pg_current_snapshot', 'inet_server_addr',
            'inet_server_port', 'current_database', 'version', 'pg_postmaster_start_time',
            'current_setting'))
    and p.prokind in ('f', 'w')
order by 1
