"""Takes jobs one by one and settles each: ``receive``, ``ack`` and ``nack``, in plain SQL.

For jobs of minutes or hours, and for workers in any language: these are three SQL functions.

    londiste queue create long_jobs --set ticker_max_count=1 --set ticker_max_lag='1 second'
    python examples/long_jobs.py register
    python examples/long_jobs.py work one

with LONDISTE_DB and the ticker of README.md.  A job is a number of seconds to take:

    psql "$LONDISTE_DB" -c "select pgq.insert_event('long_jobs', 'take', '2.5')"

The ack is in the transaction of the result, so each job has one result.  A worker that is killed
leaves its job unsettled: it gets it again when it is started under its name, and if it is not,
another worker takes over what it had as soon as it was silent for TIMEOUT.  TIMEOUT has to be
longer than any job.  A job that fails is tried again, and is a dead letter after three attempts.
"""

import os
import sys
import time

import psycopg

TIMEOUT = os.environ.get("TIMEOUT", "1 hour")


def take(conn: psycopg.Connection, worker: str) -> bool:
    """Does one job, if there is one; whether there was."""
    found = conn.execute(
        "select batch_id, ev_id, ev_data from pgq_coop.receive('long_jobs', 'workers', %s, 1, %s)",
        [worker, TIMEOUT],
    ).fetchone()
    if found is None:
        return False
    batch, job, data = found
    print(f"{worker}: job {job}, {data} seconds", flush=True)
    try:
        time.sleep(float(data))
    except ValueError as error:
        # Again in 5 seconds, three times altogether.
        conn.execute("select pgq_coop.nack(%s, %s, 5, %s, 3)", [batch, job, str(error)])
        print(f"{worker}: job {job} failed: {error}", flush=True)
        return True
    with conn.transaction():
        conn.execute("insert into long_results values (%s, %s)", [job, worker])
        if conn.execute("select pgq_coop.ack(%s, %s)", [batch, job]).fetchone() == (0,):
            # We were too slow and somebody else has the job; our result must go.
            print(f"{worker}: job {job} was taken over", flush=True)
            raise psycopg.Rollback
    return True


def main() -> None:
    """Registers the workers' consumer, or works until it is interrupted."""
    with psycopg.connect(os.environ["LONDISTE_DB"], autocommit=True) as conn:
        match sys.argv[1:]:
            case ["register"]:
                conn.execute("create table if not exists long_results (job int8, worker text)")
                conn.execute("select pgq.register_consumer('long_jobs', 'workers')")
            case ["work", worker]:
                while True:
                    if not take(conn, worker):
                        time.sleep(1)
            case _:
                sys.exit("register, or: work NAME")


if __name__ == "__main__":
    main()
