create or replace function londiste.periodic_maintenance()
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Forgets scripts that ran more than three months ago, and makes captures anew whose tables have changed, where
 * that locks no table.  Notes what became of partitions without an event, and which replicated
 * tables DDL has rewritten.
 *
 * Always 0: the ticker need not call again.
 */
begin
    delete from londiste.applied_execute
    where execute_time < now() - interval '3 months';
    delete from londiste.script_state
    where finished_at < now() - interval '3 months'
        and state in ('done', 'skipped', 'marked');
    perform londiste._renew_captures();
    begin
        perform londiste._watch_partitions();
    exception when others then
        -- Somebody has locked a partition, for instance: the next maintenance looks again.
        raise warning 'partitions of captured tables: %', sqlerrm;
    end;
    perform londiste._note_versions(false);
    return 0;
end;
$$;
