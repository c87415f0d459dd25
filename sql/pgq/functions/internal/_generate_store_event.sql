create or replace function pgq._generate_store_event()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Generates pgq._store_event() and the fast statements of pgq._insert_event().
 *
 * pgq._store_event() inserts an event into a table given by numbers.
 *
 * A statement whose text is built for every event is parsed and planned for every event.  That takes
 * as long as all the rest of an insert.  So each event table gets a statement of its own, with a plan
 * that a session keeps.  create_queue() and drop_queue() request a new text.
 *
 * Only the first 20 queues get that, because each session reads the text once.  The others, and
 * a table that a session's copy of the text does not know yet, use the slow statement.
 */
declare
    v_columns constant text := '(ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data,'
        ' ev_extra1, ev_extra2, ev_extra3, ev_extra4)';
    v_values constant text := '(i_id, i_time, i_txid, i_owner, i_retry, i_type, i_data,'
        ' i_extra1, i_extra2, i_extra3, i_extra4)';
    v_queue pgq.queue;
    v_nr int4;
    v_body text := '';
    v_fast text := '';
    v_insert record;
begin
    -- Two sessions that replace one function at a time would fail.
    perform pg_advisory_xact_lock('pgq.queue'::regclass::oid::int4, 0);

    for v_queue in select * from pgq.queue order by queue_id limit 20 loop
        v_body := v_body || format(E'    if i_queue_id = %s then\n', v_queue.queue_id);
        v_fast := v_fast || format(
            E'    if queue_name = %L then\n'
            '        v_next_id := nextval(%L);\n'
            '        v_table := current_setting(%L, true);\n',
            v_queue.queue_name,
            v_queue.queue_event_seq,
            'pgq.table_of_' || v_queue.queue_id
        );
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
            v_fast := v_fast || format(
                E'        %s v_table = %L then\n'
                '            insert into %s (ev_id, ev_time, ev_txid, ev_type, ev_data,\n'
                '                ev_extra1, ev_extra2, ev_extra3, ev_extra4)\n'
                '            select v_next_id, now(), v_txid,\n'
                '                _insert_event.ev_type, _insert_event.ev_data,\n'
                '                _insert_event.ev_extra1, _insert_event.ev_extra2,\n'
                '                _insert_event.ev_extra3, _insert_event.ev_extra4\n'
                '            from pgq.queue q\n'
                '            where q.queue_id = %s and q.queue_cur_table = %s\n'
                '                and not q.queue_disable_insert\n'
                '                and q.queue_per_tx_limit is null;\n',
                case v_nr when 0 then 'if' else 'elsif' end,
                v_nr::text,
                pgq.quote_fqname(v_queue.queue_data_pfx || '_' || v_nr),
                v_queue.queue_id,
                v_nr
            );
        end loop;
        v_body := v_body || E'    end if;\n';
        v_fast := v_fast
            || E'        end if;\n        if found then\n            return v_next_id;\n'
            || E'        end if;\n    end if;\n';
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

    -- _insert_event() stays as in its file, except between two marker comments.  The name of
    -- a queue may contain anything, also those comments or the end of a dollar quote.
    select
        left(pg_get_functiondef(oid), strpos(pg_get_functiondef(oid), 'AS $function') - 1) as head,
        split_part(prosrc, '-- fast: begin', 1) as before,
        split_part(prosrc, '-- fast: end', -1) as after
    into v_insert
    from pg_proc
    where oid = to_regprocedure('pgq._insert_event(text, text, text, text, text, text, text)')
        and prosrc like '%-- fast: begin%-- fast: end%';
    if found then
        execute v_insert.head || 'as ' || quote_literal(
            v_insert.before || E'-- fast: begin\n' || v_fast || '    -- fast: end' || v_insert.after
        );
    end if;
end;
$$;

select pgq._generate_store_event();
