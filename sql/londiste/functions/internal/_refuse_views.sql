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
    -- Not from pg_settings, which reads all settings: this may run for thousands of tables.
    if current_setting('restrict_nonsystem_relation_kind', true) is not null then
        perform set_config('restrict_nonsystem_relation_kind', 'view', true);
    end if;
end;
$$;
