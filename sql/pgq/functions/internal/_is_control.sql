create or replace function pgq._is_control(i_type text)
returns boolean
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether an event of this type is a control event: a script or a message of the cascade,
 * which nodes follow.  pgq.insert_event() and londiste/replication/apply/proofs.py test the same.
 */
    select coalesce(i_type ~ '^(EXECUTE$|pgq[.]|londiste[.])', false);
$$;
