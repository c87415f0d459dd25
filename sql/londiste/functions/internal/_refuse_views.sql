create or replace function londiste._refuse_views()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes this transaction refuse to read users' views, where the server supports that.
 *
 * Minor releases of PostgreSQL since August 2024 support it.  A table or sequence that is read by its
 * name could have been renamed, and a view given its name, while this session waited for it.
 */
begin
    if exists (select from pg_settings where name = 'restrict_nonsystem_relation_kind') then
        perform set_config('restrict_nonsystem_relation_kind', 'view', true);
    end if;
end;
$$;
