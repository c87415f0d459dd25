create or replace function pgq._generate_store_event()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Writes the function pgq._store_event(), which puts an event into a table given by numbers.
 *
 * A statement whose text is built for every event is parsed and planned for every event, which
 * takes as long as everything else an event costs.  So each event table gets a statement of its
 * own, with a plan that a session keeps.  create_queue() and drop_queue() call for a new text.
 *
 * Only the first 20 queues get that, because each session reads the text once.  The others, and
 * a table that a session's copy of the text does not know yet, take the slow statement.
 */
declare
    v_columns constant text := '(ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data,'
        ' ev_extra1, ev_extra2, ev_extra3, ev_extra4)';
    v_values constant text := '(i_id, i_time, i_txid, i_owner, i_retry, i_type, i_data,'
        ' i_extra1, i_extra2, i_extra3, i_extra4)';
    v_queue pgq.queue;
    v_nr int4;
    v_body text := '';
begin
    -- Two sessions that replace one function at a time would fail.
    perform pg_advisory_xact_lock('pgq.queue'::regclass::oid::int4, 0);

    for v_queue in select * from pgq.queue order by queue_id limit 20 loop
        v_body := v_body || format(E'    if i_queue_id = %s then\n', v_queue.queue_id);
        for v_nr in 0 .. v_queue.queue_ntables - 1 loop
            v_body := v_body || format(
                E'        if i_table_nr = %s then\n'
                '            insert into %s %s\n            values %s;\n'
                '            return true;\n        end if;\n',
                v_nr,
                pgq.quote_fqname(v_queue.queue_data_pfx || '_' || v_nr),
                v_columns,
                v_values
            );
        end loop;
        v_body := v_body || E'    end if;\n';
    end loop;

    execute format(
        'create or replace function pgq._store_event('
        'i_queue_id int4, i_prefix text, i_table_nr int4, i_id int8, i_time timestamptz,'
        ' i_txid int8, i_owner int4, i_retry int4, i_type text, i_data text, i_extra1 text,'
        ' i_extra2 text, i_extra3 text, i_extra4 text)'
        ' returns boolean language plpgsql as %L',
        E'\n/* Written by pgq._generate_store_event().  No search_path is pinned: the only callers\n'
        '   have done that, and it takes as long as a third of the insert. */\nbegin\n'
        || v_body || format(
            E'    execute ''insert into '' || pgq.quote_fqname(i_prefix || ''_'' || i_table_nr)'
            ' || '' %s values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)'' using'
            ' i_id, i_time, i_txid, i_owner, i_retry, i_type, i_data,'
            ' i_extra1, i_extra2, i_extra3, i_extra4;\n    return true;\nend;\n',
            v_columns
        )
    );
end;
$$;

select pgq._generate_store_event();
