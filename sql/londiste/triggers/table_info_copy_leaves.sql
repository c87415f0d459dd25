create or replace trigger table_info_copy_leaves
    after update of merge_state on londiste.table_info
    for each row
    when (new.merge_state is null or new.merge_state in ('in-copy', 'ok'))
    execute function londiste._leave_group();
create or replace trigger table_info_copy_left
    after delete on londiste.table_info
    for each row execute function londiste._leave_group();
-- The worker and the copy process write with the replica role, which disables other triggers.
alter table londiste.table_info enable always trigger table_info_copy_leaves;
alter table londiste.table_info enable always trigger table_info_copy_left;
