-- Who may call what in pgq_ext: everything is for writers, who apply events to this database.
grant usage on schema pgq_ext to public;

revoke all on
    pgq_ext.mover,
    pgq_ext.completed_tick,
    pgq_ext.completed_batch,
    pgq_ext.completed_event,
    pgq_ext.partial_batch,
    pgq_ext.returned_event,
    pgq_ext.known_source,
    pgq_ext.sink,
    pgq_ext.sink_stage
from public;

revoke all on all functions in schema pgq_ext from public;

grant execute on function
    pgq_ext.version(),
    pgq_ext.get_sinks()
to public;

grant execute on function
    pgq_ext.is_batch_done(text, int8),
    pgq_ext.is_batch_done(text, text, int8),
    pgq_ext.set_batch_done(text, int8),
    pgq_ext.set_batch_done(text, text, int8),
    pgq_ext.is_event_done(text, int8, int8),
    pgq_ext.is_event_done(text, text, int8, int8),
    pgq_ext.set_event_done(text, int8, int8),
    pgq_ext.set_event_done(text, text, int8, int8),
    pgq_ext.get_event_batch(text, text),
    pgq_ext.forget_batches(text, text),
    pgq_ext.set_event_returned(text, text, int8, int8, int4, int4, text),
    pgq_ext.get_returned_events(text, text, int8),
    pgq_ext.get_last_tick(text),
    pgq_ext.get_last_tick(text, text),
    pgq_ext.set_last_tick(text, int8),
    pgq_ext.set_last_tick(text, text, int8),
    pgq_ext.get_known_source(text, text),
    pgq_ext.note_known_source(text, text, text, uuid, int4, int8, timestamptz),
    pgq_ext.forget_known_source(text, text),
    pgq_ext.lock_sink(text, text),
    pgq_ext.set_sink_epoch(text, text, int8, int8),
    pgq_ext.is_sink_done(text),
    pgq_ext.make_sink_stage(text, uuid),
    pgq_ext.sink_stages(text),
    pgq_ext.drop_sink_stage(int8),
    pgq_ext.forget_sink(text)
to pgq_writer;
