create or replace trigger table_version_trigger
    after insert or delete or update of local, merge_state, dest_table on londiste.table_info
    for each row execute function londiste.table_version_trigger();
-- The worker writes with the replica role, which disables other triggers.
alter table londiste.table_info enable always trigger table_version_trigger;

-- Tables of an older release: a leaf may have no ticker, whose maintenance would do it.
do $$ begin perform londiste._note_versions(false); end $$;
