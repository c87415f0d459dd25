"""DDL replication: ``londiste execute`` runs scripts on all nodes."""
