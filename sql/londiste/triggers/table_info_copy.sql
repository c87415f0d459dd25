create or replace trigger table_info_copy_again
    after update of merge_state on londiste.table_info
    for each row
    when (new.merge_state = 'in-copy')
    execute function londiste._forget_copy();
create or replace trigger table_info_copy_gone
    after delete on londiste.table_info
    for each row execute function londiste._forget_copy();
-- The worker writes with the replica role, which disables other triggers.
alter table londiste.table_info enable always trigger table_info_copy_again;
alter table londiste.table_info enable always trigger table_info_copy_gone;
