create or replace function pgq._set_ntables(i_queue_name text, i_ntables int4)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Adds event tables to a queue, or drops some that are not needed.
 *
 * A table is dropped only when it is neither the current nor the previous one and no consumer has
 * events in it to read; otherwise LD100, and nothing is changed.  Waits for no lock on a table.
 * As for rotation, an event with an ev_txid that no transaction has had does not keep the table.
 */
declare
    v_queue pgq.queue;
    v_previous int4;
    v_lowest pgq.tick;
    v_nr int4;
    v_table text;
    v_reason text;
    v_newest int8;
    v_bound int8;
begin
    -- Rotation, ticks and registrations wait until this is committed.
    select * into v_queue from pgq.queue where queue_name = i_queue_name for update;
    for v_nr in v_queue.queue_ntables .. i_ntables - 1 loop
        perform pgq._create_event_table(v_queue, v_nr);
    end loop;

    v_previous := (v_queue.queue_cur_table + v_queue.queue_ntables - 1) % v_queue.queue_ntables;
    select t.*
    into v_lowest
    from pgq.tick t
    where t.tick_queue = v_queue.queue_id
        and t.tick_id = (
            select min(sub_last_tick) from pgq.subscription where sub_queue = v_queue.queue_id
        );
    for v_nr in i_ntables .. v_queue.queue_ntables - 1 loop
        perform pgq._require_read_committed();
        v_table := pgq.quote_fqname(v_queue.queue_data_pfx || '_' || v_nr);
        execute format('lock table %s in access exclusive mode nowait', v_table);
        perform pgq._require_home();
        v_bound := pgq._txid_bound();
        if v_nr = v_queue.queue_cur_table then
            v_reason := 'it takes the events now';
        elsif v_nr = v_previous then
            v_reason := 'it took the events before the last rotation';
        elsif v_lowest.tick_id is not null then
            execute format(
                'select ''consumers have not read all of it'' where exists ('
                '   select 1 from only %s'
                '   where ev_txid >= $1 and ev_txid < $3'
                '       and not txid_visible_in_snapshot(ev_txid, $2))',
                v_table
            )
            into v_reason
            using txid_snapshot_xmin(v_lowest.tick_snapshot), v_lowest.tick_snapshot, v_bound;
        end if;
        if v_reason is not null then
            raise exception using
                errcode = 'LD100',
                message = format('queue %s needs event table %s', i_queue_name, v_table),
                detail = format('to go down to %s tables: %s', i_ntables, v_reason),
                hint = format('again after the next rotation: select pgq.set_queue_config(%L, %L, %L)',
                              i_queue_name, 'ntables', i_ntables);
        end if;
        execute format('select max(ev_txid) from only %s where ev_txid < $1', v_table)
        into v_newest
        using v_bound;
        execute 'drop table ' || v_table;
        update pgq.queue
        set queue_history_txid = greatest(queue_history_txid, v_newest + 1)
        where queue_id = v_queue.queue_id;
    end loop;

    update pgq.queue set queue_ntables = i_ntables where queue_id = v_queue.queue_id;
    perform pgq._generate_store_event();
    perform pgq.grant_perms(i_queue_name);
    perform pgq.tune_storage(i_queue_name);
end;
$$;
