create or replace function pgq._is_control(i_type text)
returns boolean
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether an event of this type is a control event: a script or a message of the cascade, which
 * nodes obey.  pgq.insert_event() and londiste/replication/apply/proofs.py ask the same.
 */
    select coalesce(i_type ~ '^(EXECUTE$|pgq[.]|londiste[.])', false);
$$;
