# Stands in for the official postgres image on a machine that reaches no registry of images: the
# same user, variables and data directory.
FROM carrel-local/debian
RUN apt-get update \
    && apt-get install --yes --no-install-recommends postgresql-15 \
    && rm -rf /var/lib/apt/lists/* \
    && pg_dropcluster 15 main \
    && install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data
COPY postgres-entrypoint /usr/local/bin/
ENV PATH=/usr/lib/postgresql/15/bin:$PATH PGDATA=/var/lib/postgresql/data
USER postgres
VOLUME /var/lib/postgresql/data
ENTRYPOINT ["postgres-entrypoint"]
