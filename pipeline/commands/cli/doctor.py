"""The command that checks a machine before the first run: doctor."""

import json
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from . import show
from .errors import ExitCode, explain
from .options import config_option, json_option, set_option
from .session import load_config, open_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import Client

    from ..actions.doctor import Finding


@click.command(short_help="Check that machine, store and cluster are fit.")
@click.argument("store", default=".", required=False)
@config_option("Also check the cluster of this configuration")
@set_option
@click.option("--no-self-test", is_flag=True, help="Do not train the tiny models that take most of the time.")
@json_option
def doctor(store: str, configs: tuple[str, ...], settings: tuple[str, ...], no_self_test: bool, as_json: bool) -> None:
    """Check that this machine, a store and a cluster are fit for training.

    STORE is the folder or URL where runs will be written; by default the current folder. A configuration names the
    cluster only, so name its store again. Each check prints one line: what it found and, for advice and problems, what
    to do. All checks are made, also if the store or the cluster cannot be reached. The exit code is 1 if there is a
    problem.

    The first call after the installation compiles the kernels of all models, which takes about a minute on two cores.
    Later calls take some seconds. Later trainings do not compile these kernels. Only NMF and the sampler gibbs compile
    a few for another number of topics, in a second or two.

    \b
    Examples:
      corpusmill doctor
      corpusmill doctor s3://bucket/runs
      corpusmill doctor s3://bucket/runs --config my.yaml
      corpusmill doctor /shared/runs --set cluster.kind=address --set cluster.address=tcp://10.0.0.1:8786
    """
    start = time.monotonic()
    findings: list[Finding] = []

    def note(finding: "Finding") -> None:
        findings.append(finding)
        if not as_json:
            show.finding(finding)

    with ExitStack() as stack:
        client = None
        if configs or settings:
            # A check of its own compares the versions.
            session = open_session(load_config(configs, settings), as_json, compare_versions=False)
            try:
                client = stack.enter_context(session).client
            except Exception as error:  # the other checks need no cluster
                note({"check": "cluster", "status": "problem", "text": explain(error).message})
        for finding in _examine(store, client, not no_self_test):
            note(finding)
    problems = sum(finding["status"] == "problem" for finding in findings)
    if as_json:
        facts = {"store": store, "problems": problems, "seconds": time.monotonic() - start, "findings": findings}
        click.echo(json.dumps(facts))
    if problems:
        sys.exit(ExitCode.FAILED)


def _examine(url: str, client: "Client | None", with_models: bool) -> "Iterator[Finding]":
    """Yield one finding per check, in the order of what they depend on."""
    from ..actions import doctor, tiny_models
    from ..actions.doctor import find

    yield find("versions", doctor.check_versions)
    yield find("memory", doctor.check_memory)
    yield find("GPU", doctor.check_gpu)
    if client is not None:
        yield find("workers", doctor.check_workers, client)
    with doctor.Scratch(url) as scratch:
        rights = find("store", doctor.check_rights, scratch)
        yield rights
        # Otherwise, all further checks of the store would fail for the same reason.
        if rights["status"] != "problem":
            yield find("second writer", doctor.check_conditional_writes, scratch)
            if client is not None:
                yield find("shared store", doctor.check_store, client, scratch.store)
    if with_models:
        yield find("compilation", tiny_models.compile_kernels)
        yield find("self-test", tiny_models.check_models)
        if client is not None:
            yield find("workers' test", tiny_models.check_models_on, client)
