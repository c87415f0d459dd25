do $do$
begin
    -- A few events at a time, each lot in a transaction of its own.
    while pgq.maint_retry_events() > 0 loop
        commit;
    end loop;
end
$do$
