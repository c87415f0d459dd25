create or replace function londiste._acts_as_caller(i_role oid)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether a role has the rights of the caller or can get them by SET ROLE, so that it is trusted.
 *
 * From PostgreSQL 16 on a member may have neither: WITH INHERIT FALSE, SET FALSE.
 */
select pg_has_role(i_role, current_user,
    case when current_setting('server_version_num')::int4 < 160000 then 'MEMBER' else 'USAGE, SET' end);
$$;
