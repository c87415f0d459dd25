-- Who may call what in pgq_node.  Readers may look, and report the watermark of a node whose consumers
-- are theirs; administrators run workers and cascaded consumers, build and change the cascade: whoever
-- moves the position of one has it skip events, and a subscription without a worker holds the global
-- watermark.
grant usage on schema pgq_node to public;

revoke all on all tables in schema pgq_node from public, pgq_reader, pgq_writer;
grant select on all tables in schema pgq_node to pgq_reader, pgq_writer;
grant select, insert, update, delete on all tables in schema pgq_node to pgq_admin;

revoke all on all functions in schema pgq_node from public, pgq_reader, pgq_writer, pgq_admin;
grant execute on all functions in schema pgq_node to pgq_admin;

grant execute on function
    pgq_node.version(),
    pgq_node.is_root_node(text),
    pgq_node.is_leaf_node(text)
to public;

grant execute on function
    pgq_node.get_node_info(text),
    pgq_node.get_queue_locations(text),
    pgq_node.was_dropped(text, text, text),
    pgq_node.get_subscriber_info(text),
    pgq_node.get_consumer_info(text),
    pgq_node.get_consumer_state(text, text),
    pgq_node.get_consumer_hold(text, text),
    pgq_node.get_operation(text),
    pgq_node.set_subscriber_watermark(text, text, int8)
to pgq_reader, pgq_writer;
