# Stands in for the official redis image on a machine that reaches no registry of images; like
# that one it listens to its network, which in compose.yaml is a closed one.
FROM carrel-local/debian
RUN apt-get update \
    && apt-get install --yes --no-install-recommends redis-server \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o redis -g redis /data
USER redis
WORKDIR /data
VOLUME /data
ENTRYPOINT ["sh", "-c", "exec \"$@\" --protected-mode no", "entrypoint"]
CMD ["redis-server"]
