"""Settings of earlier versions: other names, and keys without effect."""

from __future__ import annotations

#: Names of Londiste 3 and PgQ for a setting; read without a notice.
LONDISTE3_NAMES = {
    "pgq_queue_name": "queue_name",
    "pgq_consumer_id": "consumer_name",
    "src_db": "db",
    "dst_db": "target_db",
    "loop_delay": "poll_interval",
    "exception_sleep": "max_retry_delay",
}

#: Names that Londiste 4 had before; read with a notice.
RENAMED = {
    "answer_timeout": "response_timeout",
    "copy_index_jobs": "index_jobs",
    "copy_resumable_from_bytes": "resumable_copy_min_bytes",
    "follow_create": "auto_add_create",
    "follow_skip_tables": "auto_add_exclude",
    "follow_tables": "auto_add_tables",
    "parallel_apply": "parallel_apply_tasks",
    "spark_from_bytes": "spark_min_bytes",
    "spark_from_events": "parallel_apply_min_events",
}

OTHER_NAMES = {**LONDISTE3_NAMES, **RENAMED}

#: Keys of earlier versions whose purpose another setting or a command serves.
INSTEAD = {
    "use_skylog": "log_config",
    "skylog_locations": "log_config",
    "logfmt_console": "log_config",
    "logfmt_console_verbose": "log_config",
    "logfmt_file": "log_config",
    "logfmt_file_verbose": "log_config",
    "logdatefmt_console": "log_config",
    "logdatefmt_file": "log_config",
    "log_size": "log_config",
    "log_count": "log_config",
    "obfuscator_map": "londiste change-handler TABLE --handler obfuscate --handler-arg 'rules={…}'",
    "shard_info_sql": "londiste change-handler TABLE --handler shard --handler-arg key=…"
    " --handler-arg nr=… --handler-arg count=…",
    "shard_hash_func": "londiste change-handler TABLE --handler shard --handler-arg hash_func=…",
}

#: Keys of earlier versions that are accepted and have no effect.
WITHOUT_EFFECT = frozenset(
    {
        *INSTEAD,
        "compare_fmt",
        "compare_sql",
        "config_dir",
        "config_file",
        "config_format",
        "connection_check_period",
        "connection_lifetime",
        "exception_grace",
        "exception_quiet",
        "exception_reset",
        "host_name",
        "keepalive_stats",
        "local_only",
        "local_only_drop_execute",
        "pgq_autocommit",
        "pgq_lazy_fetch",
        "service_name",
        "sql_retry",
        "sql_retry_formula_a",
        "sql_retry_formula_b",
        "sql_retry_formula_cap",
        "sql_retry_max_count",
        "sql_retry_max_time",
        "table_filter",
        "threaded_copy_pool_size",
        "threaded_copy_tables",
    }
)
