"""The checks in environments of their own, for every Python that is supported: `nox`, or `nox -s unit`."""

import nox

nox.options.sessions = ["lint", "unit"]


def install(session: nox.Session) -> None:
    session.install("--require-hashes", "-r", "requirements.lock")
    session.install("--no-deps", "--no-build-isolation", "-e", ".")


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    install(session)
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session(python=["3.11", "3.12", "3.13"])
def unit(session: nox.Session) -> None:
    install(session)
    session.run("pytest", "-n", "2", "tests/unit")


@nox.session(python="3.11")
def integration(session: nox.Session) -> None:
    install(session)
    session.run("pytest", "-n", "4", "--dist", "loadgroup", "tests/integration")
