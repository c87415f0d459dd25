create or replace function pgq_ext._first_nr(i_consumer text, i_subconsumer text)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the first number for a consumer without a row, and locks it against other sessions.
 *
 * Check again after the call: in read committed another transaction may have inserted the row.  A
 * stricter isolation level raises a serialization failure here.
 *
 * Rows are unique by consumer and number, not by consumer alone: such an index would lead every
 * move past all dead versions.  So this function makes the first row unique.  The clock
 * gives a number above all that were used before the row was deleted.
 */
declare
    v_nr int8;
begin
    insert into pgq_ext.mover as m (consumer_id, subconsumer_id, first_nr)
    values (
        i_consumer, i_subconsumer, (extract(epoch from clock_timestamp()) * 1000000)::int8
    )
    on conflict on constraint mover_pkey do update
    set first_nr = greatest(excluded.first_nr, m.first_nr + 1)
    returning m.first_nr into v_nr;
    return v_nr;
end;
$$;
