-- The id of the transaction of this session, which gets one.
select pg_catalog.pg_current_xact_id()::text::int8;
