-- Who may call what in londiste.  Readers may look; writers own the replicated tables and
-- run workers; an administrator of the queue runs the maintenance.
grant usage on schema londiste to public;
-- The function of a generated capture belongs to who captures the table.
revoke create on schema londiste from londiste_writer;
grant usage, create on schema londiste_capture to londiste_writer;

revoke all on all tables in schema londiste from public, pgq_reader, pgq_writer;
grant select, insert, update, delete on all tables in schema londiste to pgq_admin;
-- Objects are dropped that it names: only record_created writes it, for the owner of an object.
revoke insert, update, delete on londiste.created_object from pgq_admin;
-- The other tables hold scripts, keys or values of rows.
grant select on
    londiste.table_info,
    londiste.seq_info,
    londiste.pending_fkeys,
    londiste.copy_control,
    londiste.follow_error
to pgq_reader, pgq_writer;
grant usage, select on all sequences in schema londiste to pgq_admin;

revoke all on all functions in schema londiste
from public, pgq_reader, pgq_writer, pgq_admin, londiste_reader, londiste_writer;
grant execute on all functions in schema londiste to londiste_writer;

grant execute on function
    londiste.version(),
    londiste.make_fqname(text),
    londiste.quote_fqname(text),
    londiste.split_fqname(text),
    londiste.find_rel_oid(text, text),
    londiste.find_table_oid(text),
    londiste.find_seq_oid(text),
    londiste.find_column_types(text),
    londiste.is_replica_func(oid)
to public;

grant execute on function
    londiste.get_table_list(text),
    londiste.captured_columns(text, text),
    londiste.lost_capture(text, text),
    londiste.get_tables(text, text[]),
    londiste.lost_captures(text),
    londiste.stray_captures(text, text),
    londiste._event_triggers(text, oid),
    londiste._partition_tree(oid),
    londiste.partition_changes(text),
    londiste.rewritten_tables(text),
    londiste.replaced_tables(text),
    londiste.detached_partitions(text),
    londiste.renamed_tables(text),
    londiste.get_follow_errors(text),
    londiste.get_large_batch(text),
    londiste.get_conflicts(text),
    londiste._coordinate_copy(text, text),
    londiste.get_seq_list(text),
    londiste.get_table_pending_fkeys(text),
    londiste.get_valid_pending_fkeys(text)
to pgq_reader, pgq_writer, londiste_reader;

-- What a generated capture with expressions calls: it runs with the rights of the writer.
grant execute on function
    londiste._row_signature(oid),
    londiste._capture_parts(oid, text[], text, text),
    londiste._capture_column(text),
    londiste._capture_event(oid, record, text[], text, text),
    londiste._capture_expression(oid, text, text),
    londiste._capture_image(oid, text, text[]),
    londiste._capture_texts(oid, text, text[]),
    londiste._capture_options(text[]),
    londiste._capture_needs_key(text, text[]),
    londiste._capture_null_key(text[], text[]),
    londiste._capture_not_null(text, text[]),
    londiste._capture_guarded(oid, text[], text[], text, text),
    londiste._capture_always_state(oid, text[]),
    londiste._capture_emptied(oid, oid, text, text[]),
    londiste._capture_deferrable(oid, text[]),
    londiste._capture_changed_row(oid, text[], text, text, record, record),
    londiste._capture_every_setting(),
    londiste._capture_now(oid, text[], text, text),
    londiste._columns_now(oid),
    londiste._row_columns(oid),
    londiste._captured_table(oid, name),
    londiste._capture_fields(oid, record, text[], text, text, text[]),
    londiste._capture_from(oid),
    londiste._capture_key(oid, text, text[]),
    londiste._capture_key_changed(oid, text[], text, text),
    londiste._capture_key_columns(oid, text[]),
    londiste._capture_line(oid, text, text[]),
    londiste._capture_may_look(oid),
    londiste._reads_run_code(oid),
    londiste.trigger_name(text, text),
    londiste._written_here(xid),
    londiste._capture_names(oid, text[], text[]),
    londiste._capture_pieces(oid, text[], text, text),
    londiste._capture_same(oid, text[], text, text),
    londiste._capture_operator(oid, int2),
    londiste._capture_exact(oid, text[]),
    londiste._capture_mark(oid, oid, int2, boolean),
    londiste._capture_signature(oid),
    londiste._capture_type(text, text, text[], text[], text),
    londiste._log_state(text, text, text, text, text, text, text, text, text),
    londiste._row_there(xid, xid),
    londiste._renew_stale(oid, name)
to pgq_writer;

grant execute on function
    londiste.root_check_seqs(text),
    londiste.root_check_seqs(text, int8),
    londiste._seq_publish(text, text, int8, boolean),
    londiste._seq_state(text),
    londiste._require_seq_right(oid, text),
    londiste._seq_due(text, text, int8, boolean),
    londiste._seq_ahead(int8, int8, int8, int8, int8, int8, boolean),
    londiste.periodic_maintenance()
to pgq_admin;
