#!/bin/sh
# Makes the two databases nodes of one queue. Can be run again: what is there stays.
set -eu

for node in root leaf; do
    londiste -c "/etc/londiste/$node.toml" install
done

londiste -c /etc/londiste/root.toml node-info >/dev/null 2>&1 ||
    londiste -c /etc/londiste/root.toml create-root root "host=root dbname=shop user=postgres"

londiste -c /etc/londiste/leaf.toml node-info >/dev/null 2>&1 ||
    londiste -c /etc/londiste/leaf.toml create-leaf leaf "host=leaf dbname=shop user=postgres" \
        --provider "host=root dbname=shop user=postgres"
