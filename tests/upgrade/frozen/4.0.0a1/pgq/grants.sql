-- Who may call what in pgq.
grant usage on schema pgq to public;

grant select on pgq.consumer, pgq.queue, pgq.tick, pgq.subscription to public, pgq_reader;
grant select, insert, update, delete on
    pgq.consumer, pgq.queue, pgq.tick, pgq.subscription, pgq.retry_queue
to pgq_admin;
grant select on pgq.event_template to pgq_reader;
grant select, insert, truncate on pgq.event_template to pgq_admin;

revoke all on all functions in schema pgq from public;

grant execute on function
    pgq.register_consumer(text, text),
    pgq.next_batch(text, text),
    pgq.get_batch_events(int8),
    pgq.finish_batch(int8),
    pgq.force_tick(text)
to pgq_reader;
grant execute on function pgq.insert_event(text, text, text) to pgq_writer;
grant execute on function pgq.ticker(text), pgq.create_queue(text) to pgq_admin;
