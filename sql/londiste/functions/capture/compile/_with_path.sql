create or replace function londiste._with_path(i_args text[])
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns trigger arguments with search_path= for expressions that have none.
 *
 * The path is the one with which the session began.  So the expressions mean the same for every
 * writer, while the trigger exists.
 */
begin
    if not exists (select from unnest(i_args) as a where a ~ E'^(when|ev_\\w+)=')
        or exists (select from unnest(i_args) as a where starts_with(a, 'search_path='))
    then
        return i_args;
    end if;
    return (
        select i_args || ('search_path=' || pgq._checked_path(replace(s.reset_val, '"$user"',
            case when to_regnamespace(quote_ident(session_user)) is null then '"$user"'
                else quote_ident(session_user) end)))
        from pg_settings as s
        where s.name = 'search_path');
end;
$$;
