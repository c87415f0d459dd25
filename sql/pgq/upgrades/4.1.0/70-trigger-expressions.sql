-- Triggers know the path in which their expressions resolve: other arguments, another result.
drop function if exists pgq._log_change(
    text, text, text, text, oid, text, text, text[], record, record);
drop function if exists pgq._trigger_options(text[], text, text);
drop function if exists pgq._row_expression(text, record);
