create or replace function londiste._owner_schema_closed()
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises LD200 unless only the caller or a superuser has rights on schema londiste_apply.
 *
 * The schema must belong to the caller or a superuser, and no other role may have a right on it.
 */
begin
    if exists (
        select from pg_namespace n
        where n.nspname = 'londiste_apply'
            and (not londiste._acts_as_caller(n.nspowner)
                or exists (select from aclexplode(n.nspacl) a where a.grantee <> n.nspowner)))
    then
        raise exception using
            errcode = 'LD200',
            message = 'schema londiste_apply is open to other roles',
            detail = 'an owner of tables could change the functions by which the worker writes as it',
            hint = 'drop schema londiste_apply cascade; the worker creates it again';
    end if;
end;
$$;
