create or replace trigger table_info_trigger_sync
    before delete on londiste.table_info
    for each row execute function londiste.table_info_trigger();
