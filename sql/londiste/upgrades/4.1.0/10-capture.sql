-- A changed result, and a function that has another name now.  Captures made before keep working:
-- they call the new _capture_options() through _capture_parts().
drop function if exists londiste._capture_options(text[]);
drop function if exists londiste._capture_source(oid, text[]);
