create or replace function pgq_ext.is_sink_done(a_sink text)
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether a sink has written an epoch.  A job has only one epoch, so the job is done.
 */
    select exists (
        select from pgq_ext.sink where sink_id = a_sink and epoch is not null
    );
$$;
