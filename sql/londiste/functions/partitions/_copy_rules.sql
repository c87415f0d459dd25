create or replace function londiste._copy_rules(i_from oid, i_to oid)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/* Copies the rules of a table to its partition, enabled as on the parent. */
declare
    v_rule record;
    v_head text;
    v_from text := londiste._qualified_name(i_from);
    v_to text := londiste._qualified_name(i_to);
    v_at int;
begin
    for v_rule in
        select r.rulename, r.ev_enabled, pg_get_ruledef(r.oid) as definition
        from pg_rewrite r
        where r.ev_class = i_from
        order by r.rulename
    loop
        v_head := 'CREATE RULE ' || quote_ident(v_rule.rulename) || ' AS';
        -- ON INSERT TO table; a blank, a line or the end follows.
        v_at := length(v_head)
            + position(' TO ' || v_from in substr(v_rule.definition, length(v_head) + 1));
        execute substr(v_rule.definition, 1, v_at - 1) || ' TO ' || v_to
            || substr(v_rule.definition, v_at + length(' TO ' || v_from));
        if v_rule.ev_enabled <> 'O' then
            execute format('alter table %s %s rule %I', v_to,
                case v_rule.ev_enabled when 'D' then 'disable' when 'A' then 'enable always'
                    else 'enable replica' end,
                v_rule.rulename);
        end if;
    end loop;
end;
$$;
