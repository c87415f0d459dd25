create or replace function pgq._way_base(i_sequence regclass)
returns int8
language plpgsql
immutable
strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the base of a queue way's value, which differs for each database and sequence.
 *
 * Null where the server does not show which database it is.
 *
 * A dump contains the value of the sequence, but not from the same moment as the row of the queue.
 * After a restore its base is another number, so the value is not valid.  A copy of all files keeps
 * number and value, which fit each other there.
 *
 * Declared immutable, which it is while a server runs.  So it is evaluated when a plan is
 * made, and costs an event nothing.
 */
begin
    -- 46 bits, and 16 zeros for the value.  The path of a file contains the oid of the database: no query,
    -- because each session pays for its plan.
    return (hashtextextended(
        format('%s %s %s', (pg_control_system()).system_identifier,
            split_part(pg_relation_filepath('pg_catalog.pg_class'::regclass), '/', -2), i_sequence::oid),
        0) & 70368744177663) << 16;
exception
    when insufficient_privilege then
        return null;
end;
$$;
