create or replace function londiste._with_path(i_args text[])
returns text[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Arguments of a trigger, with search_path= for expressions that have none: the path that the
 * session began with.  So they mean the same whoever writes, for as long as the trigger is there.
 */
select case
    when not exists (select from unnest(i_args) as a where a ~ '^(when|ev_\w+)=')
        or exists (select from unnest(i_args) as a where starts_with(a, 'search_path='))
    then i_args
    else i_args || ('search_path=' || pgq._checked_path(replace(s.reset_val, '"$user"',
        case when to_regnamespace(quote_ident(session_user)) is null then '"$user"'
            else quote_ident(session_user) end)))
    end
from pg_settings as s
where s.name = 'search_path';
$$;
