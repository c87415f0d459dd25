-- Has the server hand out transaction ids; each is committed without having written anything.
do $$ begin for i in 1..{count} loop perform pg_catalog.txid_current(); commit; end loop; end $$
