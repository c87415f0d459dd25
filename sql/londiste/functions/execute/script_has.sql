create or replace function londiste.script_has(
    i_queue_name text,
    i_condition text,
    i_value text)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether this node fulfils a condition of a script.
 *
 * i_condition -- local-table, local-sequence: i_value is local on this node; local-destination: it is
 *     local, and its table exists; need-table, need-sequence, need-view, need-schema: it exists;
 *     need-function: name(number of arguments) exists.
 */
select case i_condition
    when 'local-table' then exists (
        select from londiste.table_info t
        where t.queue_name = i_queue_name and t.local
            and t.table_name = londiste.make_fqname(i_value))
    when 'local-sequence' then exists (
        select from londiste.seq_info s
        where s.queue_name = i_queue_name and s.local
            and s.seq_name = londiste.make_fqname(i_value))
    when 'local-destination' then exists (
        select from londiste.table_info t
        where t.queue_name = i_queue_name and t.local
            and t.table_name = londiste.make_fqname(i_value)
            and (londiste.find_rel_oid(coalesce(t.dest_table, t.table_name), 'r') is not null
                or londiste.find_rel_oid(coalesce(t.dest_table, t.table_name), 'p') is not null))
    when 'need-table' then londiste.find_rel_oid(londiste.make_fqname(i_value), 'r') is not null
        or londiste.find_rel_oid(londiste.make_fqname(i_value), 'p') is not null
    when 'need-sequence' then londiste.find_seq_oid(londiste.make_fqname(i_value)) is not null
    when 'need-view' then londiste.find_rel_oid(londiste.make_fqname(i_value), 'v') is not null
        or londiste.find_rel_oid(londiste.make_fqname(i_value), 'm') is not null
    when 'need-schema' then exists (select from pg_namespace n where n.nspname = i_value)
    when 'need-function' then exists (
        select from pg_proc p
            join pg_namespace n on n.oid = p.pronamespace
            cross join londiste.split_fqname(londiste.make_fqname(
                substring(i_value from E'^(.*?)\\s*\\(\\s*\\d+\\s*\\)$'))) f
        where n.nspname = f.schema_part and p.proname = f.name_part
            and p.pronargs = substring(i_value from E'\\((\\s*\\d+\\s*)\\)$')::int4)
end;
$$;
