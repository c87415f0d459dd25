-- Who may call what in pgq.  Readers consume, writers produce, administrators do both and look
-- after queues.  Functions not named here are for the owner alone.
grant usage on schema pgq to public;

revoke all on
    pgq.consumer, pgq.queue, pgq.tick, pgq.subscription, pgq.event_template, pgq.retry_queue,
    pgq.failed_queue, pgq.delayed_event, pgq.event_key, pgq.paused_consumer,
    pgq.consumer_kind, pgq.consumer_owner, pgq.control_event, pgq.daemon
from public;
-- Positions are read and changed through pgq.subscription.
revoke all on pgq.registration, pgq.position_state, pgq.position_0, pgq.position_1
from public, pgq_reader, pgq_admin;
grant select on pgq.consumer, pgq.queue, pgq.tick, pgq.subscription to public, pgq_reader;
grant select, insert, update, delete on
    pgq.consumer, pgq.queue, pgq.tick, pgq.subscription, pgq.retry_queue, pgq.failed_queue,
    pgq.delayed_event, pgq.event_key, pgq.control_event
to pgq_admin;
grant select on pgq.event_template to pgq_reader;
grant select, insert, truncate on pgq.event_template to pgq_admin;
grant usage on sequence
    pgq.consumer_co_id_seq,
    pgq.queue_queue_id_seq,
    pgq.subscription_sub_id_seq,
    pgq.batch_id_seq
to pgq_admin;

revoke all on pgq.cluster_identity, pgq.queue_generation, pgq.known_source, pgq.lost_position
from public;
grant select, insert, update, delete on pgq.known_source, pgq.lost_position to pgq_admin;
grant select on pgq.cluster_identity, pgq.queue_generation to public, pgq_reader;

revoke all on all functions in schema pgq from public, pgq_reader, pgq_writer, pgq_admin;

-- everybody
grant execute on function
    pgq.version(),
    pgq.get_queue_info(),
    pgq.get_queue_info(text),
    pgq.get_consumer_info(),
    pgq.get_consumer_info(text),
    pgq.get_consumer_info(text, text),
    pgq.get_paused_consumers(text, text),
    pgq.get_consumer_kinds(text),
    pgq.get_daemons(text),
    pgq.get_waiting_info(text, text),
    pgq.get_delayed_info(text),
    pgq.get_queue_config(text),
    pgq._queue_parameters(),
    pgq.seq_getval(text),
    pgq._last_taken(text),
    pgq.queue_generation(text),
    pgq.cached_sequences(),
    pgq._is_at_home(),
    pgq.quote_fqname(text),
    -- They run with the rights of the caller: what he may do they find out by it.
    pgq.insert_event(text, text, text),
    pgq.insert_event(text, text, text, text, text, text, text),
    pgq.insert_event_raw(
        text, int8, timestamptz, int4, int4, text, text, text, text, text, text
    ),
    pgq._insert_event_raw(
        text, int8, timestamptz, int4, int4, text, text, text, text, text, text
    ),
    pgq._is_control(text),
    pgq.insert_events(text, text[], text[], text[], text[], text[], text[]),
    pgq._insert_events(text, text[], text[], text[], text[], text[], text[]),
    pgq.insert_event_at(text, timestamptz, text, text, text, text, text, text),
    pgq.insert_event_once(text, text, text, text, text, text, text, text),
    pgq.count_bulk_events(text, int8, boolean),
    pgq.current_event_table(text),
    pgq._open_for_insert(text, int8),
    pgq._count_event(int4, text, int4, int8),
    pgq._store_event(
        int4, text, int4, int8, timestamptz, int8, int4, int4,
        text, text, text, text, text, text
    ),
    pgq._raise_insert_disabled(text),
    -- Evaluated by functions that capture, with the rights of their owners.
    pgq._way_base(regclass),
    pgq._raise_no_queue(text, text),
    -- Called by the view pgq.subscription.
    pgq._read_position(pgq.registration)
to public;

-- consumers
grant execute on function
    pgq.register_consumer(text, text),
    pgq.register_consumer_at(text, text, int8),
    pgq.unregister_consumer(text, text),
    pgq.next_batch(text, text),
    pgq.position_facts(text, text, uuid, int8),
    pgq.next_batch_info(text, text),
    pgq.next_batch_custom(text, text, interval, int4, interval),
    pgq._next_batch(text, text, interval, int4, interval, boolean),
    pgq.find_tick_helper(int4, int8, timestamptz, int8, int8, interval),
    pgq.get_batch_info(int8),
    pgq.get_batch_events(int8),
    pgq.get_batch_cursor(int8, text, int4),
    pgq.get_batch_cursor(int8, text, int4, text),
    pgq.fetch_batch_events(text, int4, int8),
    pgq.batch_event_spread(int8, int8),
    pgq.batch_page_sql(int8, text[], int8[], int8[]),
    pgq.batch_event_sql(int8),
    pgq.batch_event_tables(int8),
    pgq._open_batch(int8),
    pgq._has_late_events(text, txid_snapshot, txid_snapshot),
    pgq._snapshot_event_sql(int4, txid_snapshot, txid_snapshot, text),
    pgq._snapshot_event_tables(int4, txid_snapshot, txid_snapshot),
    pgq._open_cursor(text, text, int4, text),
    pgq._require_home(),
    pgq.tick_event_sql(text, int8, int8),
    pgq.get_tick_events(text, int8, int8),
    pgq.get_tick_cursor(text, int8, int8, text, int4, text),
    pgq._tick_snapshot(pgq.queue, int8),
    pgq.event_retry(int8, int8, int4),
    pgq.event_retry(int8, int8, timestamptz),
    pgq.batch_retry(int8, int4),
    pgq.event_retry_or_fail(int8, int8, int4, int4, text),
    pgq.events_retry_or_fail(int8, int8[], int4[], int4[], text[]),
    pgq.event_failed(int8, int8, text),
    pgq.failed_event_list(text, text),
    pgq.failed_event_list(text, text, int4, int4),
    pgq.failed_event_count(text, text),
    pgq.failed_event_retry(text, text, int8),
    pgq.failed_event_retry_all(text, text),
    pgq.failed_event_delete(text, text, int8),
    pgq.failed_event_delete_all(text, text),
    pgq.pause_consumer(text, text, text),
    pgq.resume_consumer(text, text),
    pgq.note_consumer_kind(text, text, text),
    pgq.report_daemon(
        text, text, text, text, text, int4, text, float8, float8, float8, float8, float8, boolean, text
    ),
    pgq.finish_batch(int8),
    pgq.finish_and_next(text, text, int8, interval, int4, interval, int8, int4, boolean, int8),
    pgq.read_ahead(text, text, int8, int4, interval, int4, int8),
    pgq._joined_count(text, int8, int4, int8),
    pgq.force_tick(text)
to pgq_reader;

-- what workers of nodes know of their providers: whoever could change it could have them skip events
grant execute on function
    pgq.note_known_source(text, text, text, uuid, int4, int8, timestamptz),
    pgq.move_known_tick(text, text, int8, timestamptz),
    pgq.get_known_source(text, text),
    pgq.forget_known_sources(text, text),
    pgq.get_lost_position(text, text),
    pgq.note_lost_position(text, text, text, text),
    pgq.forget_lost_position(text, text)
to pgq_admin;

-- programs that insert events of others
grant execute on function pgq.first_refused_event(text, text[], text[]) to pgq_admin;

-- producers: what insert_event() and its like call for them
grant execute on function
    pgq._produce(text, text, text, text, text, text, text, name),
    pgq._produce_at(text, timestamptz, text, text, text, text, text, text, name),
    pgq._produce_once(text, text, text, text, text, text, text, text, name),
    pgq._produce_events(text, text[], text[], text[], text[], text[], text[], name),
    pgq.cancel_delayed_event(text, int8)
to pgq_writer;

grant execute on function pgq.delayed_event_list(text, int4, int4) to pgq_reader;

-- subscribers of nodes: what nobody entitled has written
grant execute on function pgq.unproven_events(text, int8[], int8[], text[]) to pgq_reader;

-- producers by trigger
grant execute on function
    pgq.sqltriga(),
    pgq.logutriga(),
    pgq.jsontriga()
to pgq_writer;

-- What triggers call with the rights of whoever writes to the table.  To everybody, so that a
-- deny trigger says deny, and not that a helper is forbidden; insert_event() guards the queue.
grant execute on function
    pgq._log_change(
        text, text, text, text, oid, text, text, text[], record, record, text
    ),
    pgq._trigger_options(text[], text, text),
    pgq._column_list(text[], text[]),
    pgq._key_columns(oid),
    pgq._with_generated(oid, record, record),
    pgq._same_key(oid, text[], record, record),
    pgq._pick(text[], text[], text[]),
    pgq._row_columns(oid),
    pgq._row_expression(text, record, text[], text),
    pgq._expression_sql(text, text[], text),
    pgq._checked_path(text),
    pgq._row_json_sql(oid, text[]),
    pgq._row_values_sql(oid),
    pgq._json_event_type(text, text, text, text[]),
    pgq._sql_fragment(text, text[], text[], text[], text[]),
    pgq._urlencode(text),
    pgq._urlencode_row(text[], text[])
to public;

-- administrators
grant execute on function
    pgq.create_queue(text),
    pgq.drop_queue(text),
    pgq.drop_queue(text, boolean),
    pgq.set_queue_config(text, text, text),
    pgq.grant_produce(text, name),
    pgq.set_consumer_owner(text, text, name),
    pgq.revoke_produce(text, name),
    pgq._insert_event(text, text, text, text, text, text, text),
    pgq._prove_event(text, int8, text),
    pgq.prove_forwarded(text, int8[], text[]),
    pgq.accept_control_event(text, int8),
    pgq._insert_event_at(text, timestamptz, text, text, text, text, text, text),
    pgq._require_time(timestamptz, text),
    pgq._insert_event_once(text, text, text, text, text, text, text, text),
    pgq.event_retry_raw(
        text, text, timestamptz, int8, timestamptz, int4, text, text, text, text, text, text
    ),
    pgq.ticker(),
    pgq.ticker(text),
    pgq.ticker(text, int8, timestamptz, int8),
    pgq.lock_ticks(text),
    pgq.tick_at_snapshot(text, text),
    pgq.maint_operations(),
    pgq._component_has(text),
    pgq._may_maintain(text),
    pgq._refuse_maintenance(text),
    pgq.maint_rotate_tables_step1(text),
    pgq.maint_rotate_tables_step2(),
    pgq.maint_open_ways(),
    pgq._way(pgq.queue),
    pgq._way_seq(pgq.queue),
    pgq._way_value(pgq.queue),
    pgq._compress_event_table(text),
    pgq._identify_rows(text),
    pgq._revoke_defaults(text, text),
    pgq._rotation_due(text),
    pgq._txid_bound(),
    pgq._is_applied(text),
    pgq.explain_rebase(),
    pgq.rebase_queues(),
    pgq._require_read_committed(),
    pgq.maint_retry_events(),
    pgq._move_delayed(int4, int4),
    pgq._queues_that_take_events(),
    pgq.next_due(),
    pgq.maint_purge_keys(text),
    pgq.maint_positions(),
    pgq.maint_tables_to_vacuum(),
    pgq.tune_storage(text),
    pgq._event_tables(pgq.queue),
    pgq.grant_perms(text),
    pgq._grant_perms_from(text, text, text, text),
    pgq.seq_setval(text, int8),
    pgq.upgrade_schema()
to pgq_admin;

-- Who was given insert_event() by name goes on producing.
do $$
declare
    v_role text;
begin
    for v_role in
        select quote_ident(r.rolname)
        from pg_catalog.pg_proc as p
            cross join lateral pg_catalog.aclexplode(p.proacl) as a
            join pg_catalog.pg_roles as r on r.oid = a.grantee
        where p.oid = 'pgq.insert_event(text,text,text,text,text,text,text)'::regprocedure
            and a.grantee <> p.proowner
    loop
        execute format(
            'grant execute on function pgq._produce(text, text, text, text, text, text, text, name) to %s',
            v_role);
    end loop;
end;
$$;
