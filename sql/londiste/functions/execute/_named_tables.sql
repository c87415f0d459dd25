create or replace function londiste._named_tables(i_queue_name text, i_sql text)
returns setof oid
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the tables in sync whose names are in the text of a script, perhaps as other words.
 */
with word (text) as (
    select distinct w from regexp_split_to_table(lower(i_sql), '[^[:alnum:]_$]+') as w
)
select v.relid
from londiste.table_info t
    join londiste.table_version v using (queue_name, table_name)
    cross join lateral unnest(array[t.table_name, t.dest_table]) as n (name)
    cross join lateral lower(substr(n.name, strpos(n.name, '.') + 1)) as own (name)
where t.local
    and t.merge_state = 'ok'
    and case when own.name ~ '[^[:alnum:]_$]' then strpos(lower(i_sql), own.name) > 0
        else own.name in (select w.text from word w) end
group by v.relid;
$$;
