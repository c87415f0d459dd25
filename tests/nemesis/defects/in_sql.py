"""Defects of the SQL, planted in the functions of all databases."""

from __future__ import annotations

from tests.nemesis.defects.planting import in_sql

_EXECUTE_START = "londiste.execute_start(text, text, text, boolean, text)"

in_sql(
    "open transactions count as finished",
    "P2",
    (
        "pgq._insert_tick",
        r"coalesce\(i_snapshot, txid_current_snapshot\(\)\)",
        "coalesce(i_snapshot, (txid_snapshot_xmax(txid_current_snapshot())::text || ':'"
        " || txid_snapshot_xmax(txid_current_snapshot())::text || ':')::txid_snapshot)",
    ),
    operation="traffic",
)
in_sql(
    "the newest transaction of a batch is not read",
    "P1",
    ("pgq._snapshot_event_sql", r"ev_txid <= %s", "ev_txid < %s - 1"),
    operation="traffic",
)
in_sql(
    "transactions that were open at the last tick are forgotten",
    "P2",
    (
        "pgq._snapshot_event_sql",
        r"where txid_visible_in_snapshot\(running.txid, i_current\)",
        "where false",
    ),
    operation="traffic",
)
in_sql(
    "a rotation does not wait for readers",
    "P5",
    ("pgq._rotation_due", r"select min\(sub_last_tick\)", "select max(sub_last_tick)"),
    operation="traffic",
    fault="stop worker",
)
in_sql(
    "a closed root takes events",
    "P9",
    ("pgq_node.close_root", "set queue_disable_insert = true", "set queue_disable_insert = false"),
    ("pgq_node._fence", "if i_close then", "if false then"),
    operation="switchover",
)
in_sql(
    "a root is closed before its writers have finished",
    "P9",
    ("pgq_node.close_root", r"execute format\('lock table[^;]*;", ""),
    operation="switchover",
)
in_sql(
    "captures use the settings of the session",
    "P8",
    (
        "londiste._capture_every_setting",
        r"(?s)select '\{.*\}'::text\[\]",
        "select '{}'::text[]",
    ),
    operation="add-table",
    shape="types",
)
in_sql(
    "a changed key is captured as an update",
    "capture.md",
    ("londiste._capture_key_changed", r"(?s)return \(\s*select.*\);\s*end", "return 'false';\nend"),
    operation="add-table",
)
in_sql(
    "a TRUNCATE is not captured",
    "capture.md",
    (
        "londiste._capture_triggers",
        r"definition := 'after truncate on %s for each statement';\s*return next;",
        "",
    ),
    operation="add-table",
)
in_sql(
    "scripts run on the root only",
    "execute.md",
    (_EXECUTE_START, r"if not v_root and exists \(", "if not v_root or exists ("),
    operation="execute",
)
in_sql(
    "the snapshot of a copy is not stored",
    "P1",
    ("londiste.copy_group_end", "custom_snapshot = i_snapshot", "custom_snapshot = null"),
    ("londiste.move_table_state", "custom_snapshot = i_snapshot", "custom_snapshot = null"),
    ("londiste.move_table_states", "custom_snapshot = w.snapshot", "custom_snapshot = null"),
    operation="resync",
)
in_sql(
    "foreign keys are not restored",
    "copy.md",
    ("londiste.restore_table_fkey", r"if not found then\s*return '';", "if true then return '';"),
    operation="resync",
    shape="family",
)
in_sql(
    "a copy leaves its consumer behind",
    "P11",
    ("pgq.unregister_consumer", r"if not found then\s*return 0;", "if true then return 0;"),
    operation="resync",
)
in_sql(
    "a halt is not stored",
    "P3",
    ("pgq_node.set_consumer_error", "set cur_error = i_error_msg", "set cur_error = null"),
    operation="local row",
)
in_sql(
    "a worker never says that it has paused",
    "cascade.md",
    ("pgq_node.set_consumer_uptodate", "set uptodate = i_uptodate", "set uptodate = false"),
    operation="pause",
)
in_sql(
    "a lost root is not fenced",
    "P9",
    (
        "pgq_node.fence_root",
        r"set queue_disable_insert = true,\s*queue_external_ticker = true",
        "set queue_external_ticker = true",
    ),
    operation="return",
)
