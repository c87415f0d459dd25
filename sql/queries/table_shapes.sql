-- Columns of some tables, as the applier needs them.  Parameter %(tables)s: array of "schema.name",
-- unquoted (only the first dot splits).  One row per column, in table order.
--   base_type    what a domain is made of: a domain over an enum has no equality of its own
--   eq_schema    where the default btree equality of the type lives, so that a key can be
--                compared without a search path (citext, ltree and the like)
--   folding      how two texts of the type tell that the values are equal:
--                'text' they are the same; 'zeros' also without zeros at the end (numeric);
--                'blanks' also without blanks at the end (char(n)); 'never' texts cannot tell
--   json_text    the value must be cast from text, because json_populate_record takes a string
--                for a JSON string instead of for the text of a document
--   byte_text    "char" or an array of it before PostgreSQL 15, which reads the text of a value above
--                127 of later servers as a backslash
--   copied       COPY does what INSERT does: there are no rules, which it passes over, and no byte_text
--   owner        the role as which the table is written; 0 when it is the session's own
--   exposed      the table is written as this role, and another one may put a table in its place,
--                because it owns the schema
--   holds_schema this role may prevent that the schema is renamed
--   version      the same text as table_versions has
with wanted as (
    select c.oid, t.name, c.relkind, c.relhasrules,
        pg_catalog.concat_ws(' ', c.relname, c.relnamespace::pg_catalog.regnamespace, c.relowner,
            c.relkind, c.relpersistence, c.relchecks, c.relhasrules, c.relhastriggers, c.relrowsecurity, c.relforcerowsecurity,
            c.relispartition) as definition,
        case
            when pg_catalog.pg_has_role(c.relowner, current_user, trust.by) then 0
            when not pg_catalog.pg_has_role(current_user, c.relowner, 'MEMBER') then 0
            when pg_catalog.current_setting('londiste.run_as_owner', true) = 'off' then 0
            else c.relowner::int8
        end as owner,
        not pg_catalog.pg_has_role(
            case n.nspowner
                when 'pg_database_owner'::pg_catalog.regrole then (
                    select d.datdba from pg_catalog.pg_database d
                    where d.datname = pg_catalog.current_database())
                else n.nspowner
            end, current_user, trust.by)
            and coalesce(pg_catalog.current_setting('londiste.run_as_owner', true), '') <> 'off'
            as schema_of_other,
        (select r.rolsuper from pg_catalog.pg_roles r where r.rolname = current_user)
            as holds_schema
    from unnest(%(tables)s::text[]) as t(name)
    join pg_catalog.pg_namespace n
        on n.nspname = split_part(t.name, '.', 1)
    join pg_catalog.pg_class c
        on c.relnamespace = n.oid
        and c.relname = substr(t.name, strpos(t.name, '.') + 1)
        and c.relkind in ('r', 'p')
    -- As londiste._acts_as_caller().
    cross join lateral (
        select case when pg_catalog.current_setting('server_version_num')::int4 < 160000 then 'MEMBER' else 'USAGE, SET' end
    ) as trust (by)
), base as (
    -- domains stand for the type below them
    select a.attrelid, a.attnum, b.oid, b.typname, b.typtype, b.typnamespace, b.typcollation
    from wanted w
    join pg_catalog.pg_attribute a on a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped
    cross join lateral (
        with recursive down as (
            select a.atttypid as oid
            union all
            select t.typbasetype
            from down
            join pg_catalog.pg_type t on t.oid = down.oid
            where t.typtype = 'd'
        )
        select t.* from down join pg_catalog.pg_type t on t.oid = down.oid where t.typtype <> 'd'
    ) b
)
select
    w.name as table_name,
    w.oid::int8 as table_oid,
    w.relkind = 'p' as partitioned,
    not w.relhasrules and not bool_or(k.byte_text) over (partition by w.oid) as copied,
    w.owner,
    w.owner = 0 and w.schema_of_other as exposed,
    w.holds_schema,
    a.attname as column_name,
    pg_catalog.format_type(a.atttypid, a.atttypmod) as type_name,
    case
        when b.oid <> a.atttypid then pg_catalog.format_type(b.oid, -1)
    end as base_type,
    a.attgenerated <> '' as generated,
    a.attidentity = 'a' as identity_always,
    coalesce(a.attnum = any((i.indkey::int2[])[0:i.indnkeyatts - 1]), false) as in_key,
    coalesce(
        (
            select opn.nspname
            from pg_catalog.pg_opclass oc
            join pg_catalog.pg_am am on am.oid = oc.opcmethod and am.amname = 'btree'
            join pg_catalog.pg_amop ao
                on ao.amopfamily = oc.opcfamily
                and ao.amopstrategy = 3
                and ao.amoplefttype = oc.opcintype
                and ao.amoprighttype = oc.opcintype
            join pg_catalog.pg_operator op on op.oid = ao.amopopr
            join pg_catalog.pg_namespace opn on opn.oid = op.oprnamespace
            where oc.opcintype = b.oid and oc.opcdefault and op.oprname = '='
            limit 1
        ),
        'pg_catalog'
    ) as eq_schema,
    case
        when b.typtype = 'e' then 'text'
        when b.typnamespace <> 'pg_catalog'::regnamespace then 'never'
        when b.typcollation <> 0 and not coalesce(co.collisdeterministic, true) then 'never'
        when b.typname in (
            'int2', 'int4', 'int8', 'oid', 'bool', 'uuid', 'text', 'varchar', 'name', 'date',
            'timestamp', 'timestamptz', 'time', 'bytea', 'macaddr', 'macaddr8', 'pg_lsn', 'xid8'
        ) then 'text'
        when b.typname = 'numeric' then 'zeros'
        when b.typname = 'bpchar' then 'blanks'
        else 'never'
    end as folding,
    b.typname in ('json', 'jsonb') and b.typnamespace = 'pg_catalog'::regnamespace as json_text,
    k.byte_text,
    (
        select w.definition || ' ' || pg_catalog.string_agg(v.xmin::text, ' ' order by v.attnum)
        from pg_catalog.pg_attribute v
        where v.attrelid = w.oid and v.attnum > 0
    ) as version
from wanted w
join pg_catalog.pg_attribute a on a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped
join base b on b.attrelid = a.attrelid and b.attnum = a.attnum
cross join lateral (
    select '"char"'::regtype in (b.oid, (select e.typelem from pg_catalog.pg_type e where e.oid = b.oid))
        and pg_catalog.current_setting('server_version_num')::int4 < 150000 as byte_text
) as k
left join pg_catalog.pg_collation co on co.oid = a.attcollation
left join pg_catalog.pg_index i on i.indrelid = w.oid and i.indisprimary
order by w.name, a.attnum
