create or replace function londiste._seq_state(
    i_seq_name text,
    out last_value int8,
    out unused boolean)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Where a sequence of this database is: its last value, without taking one.
 *
 * unused -- that value was not handed out, it is the next one.
 */
begin
    execute format('select s.last_value, not s.is_called from %s s',
        londiste.find_seq_oid(i_seq_name)::regclass) into last_value, unused;
end;
$$;
