create or replace function londiste._seq_state(
    i_seq_name text,
    out last_value int8,
    out unused boolean)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the last value of a sequence of this database, without taking one.
 *
 * unused -- true: the value was not handed out; it is the next one.
 *
 * Raises 42501, with the grant as its hint, if this role may not read the sequence.
 */
declare
    c_views constant text := 'restrict_nonsystem_relation_kind';
    v_seq oid := londiste.find_seq_oid(i_seq_name);
    v_before text;
begin
    perform londiste._require_seq_right(v_seq, 'select, usage');
    -- Not by its name, which may be a view's at the time of reading.
    last_value := pg_sequence_last_value(v_seq::regclass);
    unused := last_value is null;
    if unused then
        perform londiste._require_seq_right(v_seq, 'select');
        -- A first value that setval() has set is in the sequence only.
        v_before := current_setting(c_views, true);
        perform londiste._refuse_views();
        execute format('select s.last_value from %s s', v_seq::regclass) into last_value;
        if v_before is not null then
            -- Triggers in the rest of the transaction may read views.
            perform set_config(c_views, v_before, true);
        end if;
    end if;
end;
$$;
