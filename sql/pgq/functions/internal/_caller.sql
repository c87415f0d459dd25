create or replace function pgq._caller()
returns name
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the role for which the session acts: that of SET ROLE, or the one that logged in.
 *
 * For functions that run with the rights of their owner, where current_user is the owner.  A
 * function of another role that the session calls acts for the session, too.  So grants of rights
 * must not rely on this function.
 *
 * Raises 42501 for code that PostgreSQL or a worker runs as the owner of a table.  It acts for its owner
 * alone, whichever session it is in: autovacuum is a session of a superuser.  Such code is in
 *
 * - ANALYZE, CREATE INDEX, REINDEX, CLUSTER, VACUUM FULL and REFRESH, and the apply worker of a
 *   subscription; there the server refuses UNLISTEN, which otherwise does nothing;
 * - writes of a foreign key, whose statement is on the stack;
 * - writes of a worker of Londiste (londiste.write_as_owner).
 */
declare
    v_context text;
    v_refused boolean;
begin
    get diagnostics v_context = pg_context;
    -- No code can remove itself or its callers from the stack.
    v_refused := position('londiste_apply.' in v_context) > 0
        or v_context ~ '(DELETE FROM|UPDATE) (ONLY )?".* OPERATOR[(]';
    if not v_refused then
        begin
            unlisten pgq_no_channel;
            -- In a session that listens it would be done at the commit, which then cannot be prepared.
            raise exception using errcode = 'LD000';
        exception
            when insufficient_privilege then
                v_refused := true;
            when sqlstate 'LD000' then
                null;
        end;
    end if;
    if v_refused then
        raise exception using
            errcode = '42501',
            message = format('code of a table does not act for role %s', pgq._session_role()),
            detail = 'the server runs it as the owner of the table: for ANALYZE, an index, a materialized'
                ' view, a foreign key or a worker',
            hint = 'call this function from a session of its own role, not from code of a table';
    end if;
    return pgq._session_role();
end;
$$;
