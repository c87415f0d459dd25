create or replace function londiste._fkey_statement(i_key londiste.pending_fkeys)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the stored statement of a foreign key, with the schemas of both tables.
 *
 * Londiste 3 stores names as its session saw them, without a schema that was in its path.
 */
select format('ALTER TABLE %s%s ADD CONSTRAINT %I %s',
        case when i_key.fkey_def ~* '^\s*alter\s+table\s+only\M' then 'ONLY ' else '' end,
        londiste.quote_fqname(i_key.from_table),
        i_key.fkey_name,
        regexp_replace(d.definition,
            '\mREFERENCES\s+(?:"(?:[^"]|"")+"|[^\s"(.]+)(?=\s*\()',
            'REFERENCES ' || replace(londiste.quote_fqname(i_key.to_table), '\', '\\')))
from (select substring(i_key.fkey_def from '\mFOREIGN\s+KEY\s*\(.*')) as d (definition)
where d.definition is not null
union all
select i_key.fkey_def
where i_key.fkey_def !~ '\mFOREIGN\s+KEY\s*\('
$$;
