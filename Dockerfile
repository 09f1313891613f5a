# The gateway in a container: what runs and nothing else, not as root, and never open to all. How to use it:
# docs/deploy.md, "In a container".
#
#   docker build --tag dragoman .
#   docker run --publish 127.0.0.1:8484:8484 --volume dragoman:/var/lib/dragoman --env ANTHROPIC_API_KEY dragoman

ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /build
# With --build-arg EXTRAS=[bedrock,vertex] those are installed, too.
ARG EXTRAS=
# What builds the package is pinned as what it needs is; the second name is for later pips.
ENV PIP_CONSTRAINT=/build/requirements/build.txt PIP_BUILD_CONSTRAINT=/build/requirements/build.txt
ENV PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
COPY requirements/run.txt requirements/build.txt requirements/
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv --without-pip /opt/dragoman \
    && pip --python /opt/dragoman/bin/python install -r requirements/run.txt ".${EXTRAS}"

FROM python:${PYTHON}-slim
COPY --from=build /opt/dragoman /opt/dragoman
# Configured by /etc/dragoman/dragoman.toml, if that is there; what is kept is in /var/lib/dragoman.
ENV PATH=/opt/dragoman/bin:$PATH HOME=/var/lib/dragoman XDG_CONFIG_HOME=/etc XDG_STATE_HOME=/var/lib
# It is there with its owner, so that a new volume in its place has the same.
RUN install -d -o 10001 -g 10001 -m 0700 /var/lib/dragoman
USER 10001:10001
VOLUME /var/lib/dragoman
EXPOSE 8484
# No proxy of the environment is asked, as urllib would.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8484, timeout=4); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["dragoman"]
# Nobody outside reaches a container's own loopback. Without keys it makes one, and says it once: docker logs.
CMD ["serve", "--host", "0.0.0.0", "--first-key", "/var/lib/dragoman/first-key"]
