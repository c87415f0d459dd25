-- Who may call what in pgq_coop: everything is for consumers.
grant usage on schema pgq_coop to public;

revoke all on pgq_coop.delivery, pgq_coop.delivery_event from public;

revoke all on all functions in schema pgq_coop from public;

grant execute on function
    pgq_coop.version()
to public;

grant execute on function
    pgq_coop.register_subconsumer(text, text, text),
    pgq_coop.unregister_subconsumer(text, text, text, int4),
    pgq_coop.next_batch(text, text, text),
    pgq_coop.next_batch(text, text, text, interval),
    pgq_coop.next_batch_custom(text, text, text, interval, int4, interval),
    pgq_coop.next_batch_custom(text, text, text, interval, int4, interval, interval),
    pgq_coop.finish_batch(int8),
    pgq_coop.receive(text, text, text, int4, interval, text),
    pgq_coop.receive_again(int8),
    pgq_coop.ack(int8, int8),
    pgq_coop.ack_events(int8, int8[]),
    pgq_coop.nack(int8, int8, int4, text, int4)
to pgq_reader;

grant execute on function
    pgq_coop.upgrade_schema()
to pgq_admin;
