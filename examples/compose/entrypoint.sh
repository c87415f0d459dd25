#!/bin/sh
# Spark's own programs find Java by JAVA_HOME; the commands of londiste look for themselves.
set -eu
if [ -z "${JAVA_HOME:-}" ]; then
    JAVA_HOME=$(python -c 'from londiste.embedded.java import find_java; print(find_java())')
    export JAVA_HOME
fi
exec "$@"
