/*
 * Lets the transaction read no view of a user from now on, where the server supports that (minor releases
 * since August 2024), or lets it again.
 *
 * %(views)s -- views may be read.  %(schemas)s, %(names)s -- of the tables that are read, unquoted.
 * restricted: the server refuses views; views: those of the names that are one, replaced: those that
 * are another relation than in the snapshot of this transaction.
 */
with named (name, oid) as (
    select n.nspname || '.' || t.name,
        pg_catalog.to_regclass(pg_catalog.format('%%I.%%I', n.nspname, t.name))::oid
    from rows from (pg_catalog.unnest(%(schemas)s::text[]), pg_catalog.unnest(%(names)s::text[]))
        as t (schema, name)
    join pg_catalog.pg_namespace as n on n.nspname = t.schema
)
select
    -- Not with a condition in front of it: then it might not be evaluated.
    pg_catalog.strpos(
        case when pg_catalog.current_setting('restrict_nonsystem_relation_kind', true) is null then ''
        else pg_catalog.set_config('restrict_nonsystem_relation_kind',
            case when %(views)s
                then (select s.reset_val from pg_catalog.pg_settings as s
                    where s.name = 'restrict_nonsystem_relation_kind')
                else 'view' end, true)
        end, 'view') > 0 as restricted,
    array(
        select t.name from named as t join pg_catalog.pg_class as c on c.oid = t.oid
        where c.relkind = 'v' order by 1) as views,
    array(
        select t.name from named as t left join pg_catalog.pg_class as c on c.oid = t.oid
        where t.oid is not null and c.oid is null order by 1) as replaced
