"""Operators of another role in ``public``, for each pair of types that pg_catalog has none for."""

from __future__ import annotations

#: They fail when they are used, with "taken over".
DECOYS = """
do $$
declare
    v_types constant text[] := '{bool,"\\"char\\"",name,text,varchar,bpchar,int2,int4,int8,numeric,
        float8,
        oid,regclass,regproc,regtype,regnamespace,xid,text[],name[],oid[],int2[],int4[],int8[],
        int2vector,oidvector,timestamp,timestamptz,date,interval,json,jsonb,pg_lsn,inet}';
    v_left text;
    v_right text;
    v_name text;
    v_count int4 := 0;
begin
    set local check_function_bodies = off;
    foreach v_left in array v_types loop
        foreach v_right in array v_types loop
            execute format('create function public.taken(%1$s, %2$s) returns bool language plpgsql'
                ' as %3$L', v_left, v_right, format('begin raise exception %L; end',
                'taken over: ' || v_left || ', ' || v_right));
            foreach v_name in array '{=,<>,<,>,<=,>=,||,+,-,->,->>,@>,<@,~,~~,!~}'::text[] loop
                if to_regoperator(format('pg_catalog.%s(%s,%s)', v_name, v_left, v_right)) is null
                then
                    execute format('create operator public.%s'
                        ' (leftarg = %s, rightarg = %s, function = public.taken)',
                        v_name, v_left, v_right);
                    v_count := v_count + 1;
                end if;
            end loop;
        end loop;
    end loop;
    if v_count < 5000 then
        raise exception 'only % decoys', v_count;
    end if;
end
$$;
"""
