/*
 * The statements that create collations.
 *
 * %(names)s -- the collations, quoted, with their schemas.
 * Those of the schema pg_catalog are locales of the server's operating system or of ICU; their statement
 * creates all that the server has.
 */
select
    c.name,
    c.nspname::text as schema,
    case
        when c.nspname = 'pg_catalog' then
            'select pg_import_system_collations(''pg_catalog'')'
        else pg_catalog.format(
            'create collation %%s (provider = %%s, %%s%%s%%s)',
            c.name,
            case c.facts ->> 'collprovider'
                when 'i' then 'icu' when 'b' then 'builtin' else 'libc' end,
            case when c.facts ->> 'collprovider' in ('i', 'b')
                then pg_catalog.format('locale = %%L', coalesce(
                    c.facts ->> 'colllocale', c.facts ->> 'colliculocale', c.facts ->> 'collcollate'))
                else pg_catalog.format('lc_collate = %%L, lc_ctype = %%L',
                    c.facts ->> 'collcollate', c.facts ->> 'collctype') end,
            case when not (c.facts ->> 'collisdeterministic')::bool
                then ', deterministic = false' end,
            ', rules = ' || pg_catalog.quote_literal(c.facts ->> 'collicurules'))
    end as statement
from (
    select n.nspname, pg_catalog.to_jsonb(o) as facts,
        pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(o.collname) as name
    from pg_catalog.pg_collation o join pg_catalog.pg_namespace n on n.oid = o.collnamespace
) c
where c.name = any(%(names)s::text[])
order by 1
