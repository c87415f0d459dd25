# The program with Spark and a Java; the PostgreSQL servers are other containers.
#
#   docker build -t londiste .
#   docker run --rm londiste londiste --help

FROM python:3.13-slim

RUN useradd --create-home londiste

WORKDIR /usr/src/londiste
COPY pyproject.toml README.md LICENSE ./
COPY client client
COPY londiste londiste
COPY sql sql
RUN pip install --no-cache-dir ./client ".[web,lake]"

COPY examples/compose/entrypoint.sh /usr/local/bin/entrypoint.sh

USER londiste
WORKDIR /home/londiste
ENTRYPOINT ["/usr/local/bin/entrypoint.sh"]
CMD ["londiste", "--help"]
