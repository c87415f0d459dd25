-- Attempts of copies that ended by the removal of their table: remove-table takes an attempt with
-- chunks for a table that is incomplete, and empties it.
delete from londiste.copy_chunk c
where not exists (
    select from londiste.table_info t
    where t.queue_name = c.queue_name
        and t.table_name = c.table_name
        and t.local
        and t.merge_state is distinct from 'ok');
delete from londiste.copy_attempt a
where not exists (
    select from londiste.table_info t
    where t.queue_name = a.queue_name
        and t.table_name = a.table_name
        and t.local
        and t.merge_state is distinct from 'ok');
