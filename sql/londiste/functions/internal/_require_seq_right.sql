create or replace function londiste._require_seq_right(
    i_seq oid,
    i_rights text)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises 42501, with the grant as its hint, if this role has none of the rights on a sequence.
 *
 * i_rights -- update: it is to be moved; select, or select and usage: it is read.
 */
begin
    if not has_sequence_privilege(i_seq, i_rights) then
        raise exception 'role % may not % sequence %', quote_ident(current_user),
            case when i_rights = 'update' then 'move' else 'read' end, i_seq::regclass
            using errcode = 'insufficient_privilege',
                hint = format('as an administrator: grant select, update on sequence %s to %I',
                    i_seq::regclass, current_user);
    end if;
end;
$$;
