# Builds baton and puts it into a small image, where it runs as a supervisor.
#   docker build -t baton .
#   docker run -v /etc/baton:/etc/baton:ro -v baton:/var/lib/baton --network host baton
FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p baton

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && mkdir -p /etc/baton/services.d /var/lib/baton /run/baton
COPY --from=build /src/target/release/baton /usr/bin/baton
VOLUME /var/lib/baton
EXPOSE 7117/udp 7117/tcp
# baton handles SIGTERM itself and reaps what its services leave behind, so it can be PID 1.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/baton"]
CMD ["run", "--config", "/etc/baton/baton.toml"]
