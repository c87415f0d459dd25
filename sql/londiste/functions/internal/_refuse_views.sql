create or replace function londiste._refuse_views()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Has this transaction read no views of users from here on, where the server knows how (minor releases since August 2024).
 *
 * A table or sequence that is read by its name could have been given another one, and a view its name,
 * while this session waited for it.
 */
begin
    if exists (select from pg_settings where name = 'restrict_nonsystem_relation_kind') then
        perform set_config('restrict_nonsystem_relation_kind', 'view', true);
    end if;
end;
$$;
