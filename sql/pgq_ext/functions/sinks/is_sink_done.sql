create or replace function pgq_ext.is_sink_done(a_sink text)
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether a sink has written an epoch: for a job, which has only one, that it is done.
 */
    select exists (
        select from pgq_ext.sink where sink_id = a_sink and epoch is not null
    );
$$;
