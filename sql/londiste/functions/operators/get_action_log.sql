create or replace function londiste.get_action_log(
    i_queue_name text,
    i_limit int4,
    out action_id int8,
    out operator text,
    out action text,
    out command text,
    out reason text,
    out began_at timestamptz,
    out ended_at timestamptz,
    out outcome text)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the newest actions of operators at this node, the newest first.
 *
 * i_limit -- their number at most.
 */
select l.action_id, l.operator, l.action, l.command, l.reason, l.began_at, l.ended_at, l.outcome
from londiste.operator_log as l
where l.queue_name = i_queue_name
order by l.action_id desc
limit i_limit;
$$;
