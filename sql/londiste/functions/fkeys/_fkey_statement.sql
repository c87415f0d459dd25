create or replace function londiste._fkey_statement(i_key londiste.pending_fkeys)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the stored statement of a foreign key, with the schemas of both tables.
 *
 * Londiste 3 stores names as its session saw them, without a schema that was in its path.
 *
 * The owner of a table chooses the names in it, and a worker executes the result.  So the whole text
 * must be one statement of this form, with every odd character inside of quotes.
 */
declare
    c_name constant text := '(?:"(?:[^"]|"")+"|[a-z0-9_]+)';
    c_table constant text := c_name || '(?:[.]' || c_name || ')?';
    c_columns constant text := '[(](?:"(?:[^"]|"")+"|[a-z0-9_, ])*[)]';
    c_form constant text := E'^\\s*alter\\s+table\\s+(only\\s+)?' || c_table
        || E'\\s+add\\s+constraint\\s+' || c_name
        || E'\\s+(foreign\\s+key\\s*' || c_columns || E'\\s+references\\s+)' || c_table
        || E'\\s*(' || c_columns || E'(?:\\s+[a-z]+|\\s*' || c_columns || E')*)\\s*$';
    v_part text[] := regexp_match(i_key.fkey_def, c_form, 'i');
begin
    if v_part is null then
        raise exception 'the stored definition of foreign key % of table % is not one ALTER TABLE'
            ' statement that adds a foreign key', i_key.fkey_name, i_key.from_table
            using errcode = 'LD004',
            hint = 'add the key by hand, then delete its row from londiste.pending_fkeys';
    end if;
    return format('ALTER TABLE %s%s ADD CONSTRAINT %I %s%s%s',
        case when v_part[1] is null then '' else 'ONLY ' end,
        londiste.quote_fqname(i_key.from_table),
        i_key.fkey_name,
        v_part[2],
        londiste.quote_fqname(i_key.to_table),
        v_part[3]);
end;
$$;
