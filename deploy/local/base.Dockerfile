# Stands in for python:3.11-slim-bookworm on a machine that reaches no registry of images.
# `deploy/try-compose --local` makes carrel-local/debian with debootstrap.
FROM carrel-local/debian
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
# This machine's own certificate authorities, so that pip trusts what the machine trusts.
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt
