create or replace function pgq_ext._first_nr(i_consumer text, i_subconsumer text)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * The number to begin with for a consumer that has no row yet; nobody else gets one meanwhile.
 *
 * Look again after it: in read committed another transaction may have made the row.  In a
 * stricter isolation level that is a serialization failure here.
 *
 * Rows are unique by consumer and number, not by consumer alone: such an index would lead every
 * move past all dead versions.  So this is what makes the first row the only one.  The clock
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
