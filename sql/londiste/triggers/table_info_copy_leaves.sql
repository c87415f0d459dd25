create or replace trigger table_info_copy_leaves
    after update of merge_state on londiste.table_info
    for each row
    when (new.merge_state is null or new.merge_state in ('in-copy', 'ok'))
    execute function londiste._leave_group();
