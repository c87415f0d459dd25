/*
 * What the server has to do: sessions at work that are not ours, and its standbys' lag in seconds.
 *
 * hidden -- there are sessions that this role may not look at (it is no member of pg_monitor).
 * A standby that has nothing to replay has no lag.
 */
select
    (
        select count(*) filter (where a.state = 'active')
        from pg_catalog.pg_stat_activity a
        where a.backend_type = 'client backend'
            and a.pid <> pg_catalog.pg_backend_pid()
            and a.application_name not like 'londiste%'
    )::int4 as sessions,
    exists (
        select
        from pg_catalog.pg_stat_activity a
        where a.backend_type is null
    ) as hidden,
    (
        select coalesce(extract(epoch from max(r.replay_lag)), 0)
        from pg_catalog.pg_stat_replication r
    )::float8 as lag
