"""The findings about tables and sequences: what each means, and what helps."""

from __future__ import annotations

from collections.abc import Mapping

#: By id, as ``catalog.GROUPS`` has them.
TABLES: Mapping[str, tuple[str, str]] = {
    "state": (
        "A table is not in sync: it is being copied, or an error blocks its copy.",
        "londiste copy status shows the progress or the error.",
    ),
    "copy": (
        "The copy of a table fails; it retries.",
        "Read the message, correct the cause: londiste copy status.",
    ),
    "copies-paused": (
        "An operator paused the copies of a node, and tables are not in sync.",
        "londiste copy resume, with the settings of the node.",
    ),
    "merge-differs": (
        "A leaf of a stand-by keeps other tables or filters than that of the combined root."
        " After a switchover rows would be missing, so it is refused.",
        "Run the command of the finding. A takeover of a root that does not answer cannot"
        " compare the leaves.",
    ),
    "capture": (
        "Changes of a table are not captured, or commands do not find it.",
        "londiste check names the table and the command that restores its capture.",
    ),
    "capture-lost": (
        "Changes of a table are not captured: its trigger is gone or disabled. Or a table that is"
        " not replicated, and had its name before, sends its changes under that name.",
        "londiste triggers --restore TABLE re-creates it with its options, and drops the capture of"
        " such another table. Then run londiste"
        " resync TABLE on the nodes below: they lack the changes since then. After alter table"
        " … enable trigger all this finding ends, but these changes stay lost:"
        " londiste compare finds them.",
    ),
    "second-queue": (
        "The worker of another queue writes rows into a table that this root captures, and the"
        " capture fires for applications only: nodes below lack these rows. Or a branch that was"
        " the root gets such rows, and sends none of them. Tables whose handler decides by a"
        " function which version stays (multimaster, applyfn) are left out.",
        "londiste triggers --always TABLE, then londiste resync TABLE on the nodes below. It is"
        " refused if the rows come back to their origin. On a branch: switchover to it.",
    ),
    "native-subscription": (
        "A subscription of PostgreSQL's own replication writes rows into a captured table (or its"
        " partition), and the capture does not fire for them: nodes below lack these rows. Triggers"
        " for statements never fire for such rows, also if they are ENABLE ALWAYS.",
        "londiste triggers --always TABLE, which captures by row, then londiste resync TABLE on the"
        " nodes below. Not if Londiste replicates these rows back to their origin.",
    ),
    "branch-capture": (
        "A table of a branch is not captured: its trigger is gone or disabled. Or another table has"
        " its capture, too (capture-lost). Nodes below get"
        " the events of its provider, so they lack nothing. But writes on the branch by mistake"
        " are not seen, and takeover and switchover refuse the branch as the root.",
        "londiste compare TABLE with the settings of the branch, and londiste resync TABLE"
        " there where it differs. Only then londiste triggers --restore TABLE. A node below"
        " needs a copy only if it has copied the table from the branch meanwhile.",
    ),
    "replication-role": (
        "session_replication_role is replica or local for the server, the database or a role:"
        " captures do not fire in such sessions, and their changes are lost for all nodes.",
        "Reset the setting and end the open sessions; the finding contains the statement. Then"
        " londiste compare, and londiste resync TABLE where a table differs.",
    ),
    "capture-broken": (
        "Writes of a table fail: an argument of its trigger (when=, ev_extra2=, pkey= …) names a"
        " column that was renamed or dropped, or does not fit for another reason. A"
        " warning: it is not known, because another session locks a table that the argument names;"
        " or the node is a branch, whose writes fail only when it becomes the root.",
        "Correct the argument in the statement of the finding, and run it in psql; or undo the"
        " change of the table. londiste.refresh_capture does not help: it keeps the arguments.",
    ),
    "capture-stale": (
        "The capture does not match the table any more: it works, but slower. Or its function is"
        " not for the present owner of the table, who then cannot add partitions. Or another"
        " session has locked the table, so nothing is known.",
        "londiste triggers --restore re-creates it; maintenance does it where that locks no table.",
    ),
    "capture-unreadable": (
        "A node with Londiste 3 cannot read what the capture writes.",
        "londiste change-form TABLE --trigger logutriga.",
    ),
    "renamed": (
        "A replicated table was renamed; its events or commands use the other name.",
        "The finding contains the command that settles it.",
    ),
    "missing": (
        "A replicated table does not exist on the node.",
        "londiste remove-table TABLE, then londiste add-table TABLE --create-full, with its handler"
        " and filters; or create it, then londiste resync TABLE.",
    ),
    "sequence-missing": (
        "A replicated sequence does not exist on the node: it was dropped or renamed.",
        "Rename it back; or londiste remove-seq with the old name, then add-seq with the new"
        " one, on the root first.",
    ),
    "sequence-range": (
        "The range of a sequence on the node does not contain the published value.",
        "alter sequence with the type, minvalue and maxvalue that it has on the root.",
    ),
    "sequence-behind": (
        "A sequence of the node is behind the value that the root has published for it.",
        "Restart the worker of the node, or run the statement of the finding.",
    ),
    "partition": (
        "Rows of a partition changed without an event: subscribers may have other rows.",
        "londiste resync on the nodes below, then settle it as the finding says.",
    ),
    "partition-detached": (
        "A partition of a subscriber's table was detached there: its rows are missing in the table,"
        " and the next event of such a row stops the worker. A partition that is attached again, or"
        " dropped, ends the finding, and so does a copy of the table.",
        "Attach it again, then londiste compare TABLE, and londiste resync TABLE where it differs."
        " If the root has detached it, too: select londiste.accept_rewrite(QUEUE, TABLE).",
    ),
    "partition-names": (
        "A compatible trigger of a partitioned table names partitions in its events.",
        "londiste triggers --restore TABLE, then londiste resync on the nodes below.",
    ),
    "rewritten": (
        "A table was changed on one node without events: DDL outside of scripts wrote values, a"
        " new column lacks those of old rows, or a lost capture was restored. Rows may differ. A"
        " branch with it cannot become the root.",
        "londiste compare TABLE, and londiste resync TABLE where it differs. If it is equal: select"
        " londiste.accept_rewrite(QUEUE, TABLE).",
    ),
    "table-replaced": (
        "A table of a subscriber is not the one that was copied: it was dropped and created"
        " again, or another table got its name. Rows of before are missing, and the worker stops"
        " before the next change of it. After a restore of the whole database there is no such"
        " finding.",
        "londiste compare TABLE, and londiste resync TABLE where it differs. If it is equal:"
        " select londiste.accept_rewrite(QUEUE, TABLE).",
    ),
    "columns": (
        "A table has other columns than on its provider.",
        "A column that is missing: londiste columns TABLE --add. One of another type: alter table"
        " on the node, then londiste compare TABLE.",
    ),
    "filter-types": (
        "A row filter reads a column that has another type than on the provider.",
        "Give the column the type of the provider, then londiste resync TABLE.",
    ),
    "rule-columns": (
        "A rule of a table names columns that its provider does not have.",
        "londiste change-handler TABLE with the present columns, then londiste resync TABLE.",
    ),
    "no-key": (
        "A table has no primary key: only INSERT and TRUNCATE can be replicated. If only the"
        " table of a subscriber has none, UPDATE and DELETE are slow there.",
        "Add a primary key, on a subscriber with the columns of its provider's.",
    ),
    "key-null": (
        "Columns of a key given by pkey= may be NULL: changes of such a row are refused.",
        "Make them NOT NULL: alter table TABLE alter column COLUMN set not null.",
    ),
    "key-deferrable": (
        "A key, unique or exclusion constraint of a subscriber's table is deferrable, and several"
        " queues fill the table, or its provider has no such constraint. PostgreSQL does not check"
        " it for replicated rows: two rows may have the same values, or one replaces the other.",
        "Correct such rows, and run the statement of the finding: the constraint then is not"
        " deferrable, and the worker names a row that breaks it.",
    ),
    "key-text": (
        "Equal values of the key may have different texts: changes are applied row by row.",
        "A key of integer, uuid, text or timestamp is faster.",
    ),
    "size": (
        "Values or rows of a table are near the limit of what an event can contain.",
        "Store large values elsewhere, or exclude the column: --trigger-arg ignore=COLUMN.",
    ),
    "unlogged": (
        "A replicated table is unlogged: a crash truncates it without an event.",
        "alter table … set logged.",
    ),
    "large-objects": (
        "A column may point to large objects, which are not replicated.",
        "Store such values in a bytea column.",
    ),
    "always": (
        "A trigger of a table fires for replicated rows, too.",
        "alter table … enable trigger, or enable replica trigger.",
    ),
    "rule": (
        "A rewrite rule of a table applies to replicated rows, too (ENABLE ALWAYS or REPLICA).",
        "alter table … enable rule, or disable rule.",
    ),
    "type-owner": (
        "A column has a domain, a composite type or a range of a role that has not the rights of"
        " the table's owner. By a check of the type that role gets the rights of who writes rows.",
        "alter type TYPE owner to ROLE, as the finding says.",
    ),
    "table-owner": (
        "The worker's role is a member of a table's owner, but may not become it (SET FALSE, since"
        " PostgreSQL 16). It writes the rows with the rights of the owner, so the first change"
        " stops it.",
        "grant OWNER to ROLE with set true, as the finding says.",
    ),
    "referenced": (
        "A table that is not replicated refers to a replicated one.",
        "londiste add-table TABLE.",
    ),
    "subscribers": (
        "The handler or filter of a table of a branch was changed, and the command was"
        " interrupted: the nodes below have rows of before.",
        "londiste change-handler TABLE --continue, on the branch.",
    ),
    "foreign-key": (
        "A foreign key is dropped during a copy, or does not hold for all rows.",
        "londiste fkeys shows why, and londiste fkeys --restore restores it.",
    ),
    "follow": (
        "A table matches auto_add_tables and cannot be added.",
        "Correct the cause; the worker retries. Or name the table in auto_add_exclude.",
    ),
    "not-followed": (
        "A table or sequence matches auto_add_tables and cannot be added.",
        "Correct the cause; the worker retries. Or name it in auto_add_exclude.",
    ),
    "no-tables": (
        "A branch or leaf has lost its list of tables, by hand or by a restore: it applies no"
        " change of those that its provider has. status and check --all-nodes find it.",
        "londiste add-table --all on the node: they are copied again.",
    ),
    "not-kept": (
        "The provider replicates a table that the node does not.",
        "londiste add-table TABLE on the node.",
    ),
    "not-above": (
        "The node replicates a table of which its provider has no copy.",
        "londiste add-table TABLE on the provider, or londiste resync --find-copy-node.",
    ),
    "unknown-above": (
        "The provider does not know a table that the node replicates, and sends no changes.",
        "Add the table on the root, or londiste remove-table TABLE.",
    ),
    "sequence": (
        "A column of a replicated table takes its values from a sequence that is not replicated.",
        "londiste add-seq SEQUENCE on the root, then on the other nodes.",
    ),
    "sequence-not-kept": (
        "The node does not replicate a sequence of its provider.",
        "londiste add-seq --create SEQUENCE.",
    ),
    "drift": (
        "The audit (compare --continuous) has found rows that differ from the root's.",
        "londiste repair TABLE makes a plan that repairs them.",
    ),
}
