# Ingest from the packages that would be published.
#
#   docker build --tag ingest .
#   docker run --detach --name ingest --init --read-only --publish 8787:8787 --volume ingest:/data ingest
#   docker exec ingest ingest keys create --project demo

ARG NODE_IMAGE=node:24.21.0-bookworm-slim

FROM ${NODE_IMAGE} AS pack
WORKDIR /src
COPY . .
RUN npm run pack

FROM ${NODE_IMAGE} AS install
WORKDIR /opt/ingest
COPY --from=pack /src/dist/ /tmp/dist/
# lmdb comes with its binary: nothing is compiled
RUN npm install --ignore-scripts --no-audit --no-fund /tmp/dist/*.tgz

FROM ${NODE_IMAGE}
COPY --from=install /opt/ingest /opt/ingest
COPY deploy/healthcheck.cjs /opt/ingest/healthcheck.cjs
RUN ln -s /opt/ingest/node_modules/@ingest/cli/bin/ingest.js /usr/local/bin/ingest \
 && install --directory --owner=1000 --group=1000 --mode=0700 /data
ENV NODE_ENV=production INGEST_STORE=/data INGEST_LISTEN=0.0.0.0:8787
USER 1000:1000
VOLUME /data
EXPOSE 8787
STOPSIGNAL SIGTERM
# 60 seconds: the id index may be rebuilt at start
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s \
  CMD ["node", "/opt/ingest/healthcheck.cjs"]
ENTRYPOINT ["ingest"]
CMD ["serve"]
