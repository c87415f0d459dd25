create or replace function pgq._revoke_produce(i_queue pgq.queue)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Revokes the rights to write into the tables of a queue, and to take numbers of its sequences, from all roles
 * but administrators.
 *
 * Administrators are the owner, and roles that are members of pgq_admin.  Rights on columns end with those
 * on the table.
 */
declare
    v_grant record;
begin
    for v_grant in
        select
            case c.relkind when 'S' then 'sequence ' else '' end || c.oid::regclass::text as relation,
            case when a.grantee = 0 then 'public' else quote_ident(r.rolname) end as grantee,
            string_agg(distinct a.privilege_type, ', ') as privileges
        from unnest(array(select pgq.quote_fqname(t) from pgq._event_tables(i_queue) as t) || array[
                pgq.quote_fqname(i_queue.queue_data_pfx), pgq.quote_fqname(i_queue.queue_event_seq),
                pgq.quote_fqname(i_queue.queue_tick_seq), pgq._way_seq(i_queue)]) as t (name)
            join pg_class as c on c.oid = to_regclass(t.name)
            cross join lateral (
                select c.relacl
                union all
                select k.attacl from pg_attribute as k where k.attrelid = c.oid and k.attacl is not null
            ) as given (acl)
            cross join lateral aclexplode(given.acl) as a
            left join pg_roles as r on r.oid = a.grantee
        where a.privilege_type not in ('SELECT', 'MAINTAIN')
            and a.grantee <> c.relowner
            and (a.grantee = 0
                or r.oid is not null and not pg_has_role(r.oid, 'pgq_admin', 'usage'))
        group by c.oid, c.relkind, 2
    loop
        -- What a role has granted to others with its right goes, too.
        execute format('revoke %s on %s from %s cascade',
            v_grant.privileges, v_grant.relation, v_grant.grantee);
    end loop;
end;
$$;
