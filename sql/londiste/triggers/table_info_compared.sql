create or replace trigger table_info_compared
    after update of merge_state on londiste.table_info
    for each row
    when (new.merge_state = 'ok' and old.merge_state is distinct from 'ok')
    execute function londiste._forget_compared();
-- The worker writes with the replica role, which disables other triggers.
alter table londiste.table_info enable always trigger table_info_compared;
