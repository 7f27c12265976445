# Ingest, with the dependencies of pnpm-lock.yaml.
#
#   docker build --tag ingest .
#   docker run --detach --name ingest --init --read-only --publish 8787:8787 --volume ingest:/data ingest
#   docker exec ingest ingest keys create --project demo

ARG NODE_IMAGE=node:24.21.0-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /src
COPY . .
# CI: the lockfile is not changed
ENV CI=true
RUN npm run build
# lmdb comes with its binary: nothing is compiled
RUN npx --yes pnpm@10.34.9 --filter @ingest/cli deploy --prod --ignore-scripts \
  --config.inject-workspace-packages=true /opt/ingest

FROM ${NODE_IMAGE}
COPY --from=build /opt/ingest /opt/ingest
COPY deploy/healthcheck.cjs /opt/ingest/healthcheck.cjs
RUN ln -s /opt/ingest/bin/ingest.js /usr/local/bin/ingest \
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
