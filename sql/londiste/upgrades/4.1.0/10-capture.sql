-- A changed result, and a function that has another name now.  Captures made before keep working:
-- they call the new _capture_options() through _capture_parts().
drop function if exists londiste._capture_options(text[]);
drop function if exists londiste._capture_source(oid, text[]);
drop function if exists londiste._capture_triggers(oid, text[], oid);
drop function if exists londiste._capture_form(text, bool, bool, "char", bool, bool, bool, bool, record);
