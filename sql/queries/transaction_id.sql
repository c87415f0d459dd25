-- The id of the transaction of this session, which gets one.  The session has the search_path of its user.
select pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8;
