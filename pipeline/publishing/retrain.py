"""Retraining on a schedule: plan, build, judge and publish a new version.

HEAD is switched last. A call that is killed at any point is completed by the next one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...configs.schema import Config, RetrainConfig
from .build import Listeners, VersionBuilder
from .gate import reason_to_refuse
from .plan import RetrainPlan, RetrainRequest, make_plan
from .results import RetrainResult
from .versions import VersionRecord, Versions

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class Decision:
    """What to do about a plan, and the version that is complete already, if there is one."""

    action: Literal["nothing", "refuse", "publish", "build"]
    version: VersionRecord | None = None
    reason: str | None = None


def retrain(
    config: Config,
    client: "Client | None" = None,
    request: RetrainRequest | None = None,
    listeners: Listeners | None = None,
) -> RetrainResult:
    """Bring the published model of a configuration up to date, and return what was done.

    Raises ValueError for settings that contradict the version in use, DataError for data that cannot be read, and
    Locked if another process retrains the same model.
    """
    request = request or RetrainRequest()
    versions = Versions(config.retrain.url)
    if request.dry_run:
        plan = make_plan(config, versions, request)
        return _result(config, request, plan, decide(plan, versions, config.retrain))
    with versions.locked() as check:
        plan = make_plan(config, versions, request)
        versions.delete_unused(config.retrain.keep, plan.name)
        builder = VersionBuilder(config, plan, versions, client, listeners or Listeners(), check)
        decision = _carry_out(builder)
        versions.delete_unused(config.retrain.keep)
    return _result(config, request, plan, decision)


def _carry_out(builder: VersionBuilder) -> Decision:
    """Build and publish what the plan needs; return the last decision."""
    plan, versions = builder.plan, builder.versions
    limits = builder.config.retrain
    decision = decide(plan, versions, limits)
    if decision.action == "build":
        if not builder.build(max(versions.numbers, default=0) + 1):
            return Decision("nothing", reason="the new files have no words to train on")
        decision = decide(plan, versions, limits)
    if decision.action == "publish" and decision.version is not None:
        versions.publish(decision.version["version"], plan.head.withdrawn)
    return decision


def decide(plan: RetrainPlan, versions: Versions, limits: RetrainConfig) -> Decision:
    """Decide whether to build, publish or do nothing. An earlier call may have built the version of the plan."""
    if not plan.is_due:
        return Decision("nothing")
    version = _find_version(plan, versions)
    if version is None:
        return Decision("build")
    number = version["version"]
    if number in plan.head.withdrawn:
        reason = f"version {number} covers the same files and was withdrawn; to use it anyway, roll back to it"
        return Decision("nothing", version=None, reason=reason)
    # The limits may have changed since the version was built.
    reason = reason_to_refuse(version, plan.published, limits)
    if reason:
        return Decision("refuse", version, reason)
    return Decision("publish", version)


def _find_version(plan: RetrainPlan, versions: Versions) -> VersionRecord | None:
    for number in reversed(versions.numbers):
        version = versions.read(number)
        if version["name"] == plan.name:
            return version
    return None


def _result(config: Config, request: RetrainRequest, plan: RetrainPlan, decision: Decision) -> RetrainResult:
    used, made = plan.published, decision.version
    shown = made or used
    number = shown["version"] if shown else None
    return {
        "status": _status(decision, request),
        "url": config.retrain.url,
        "kind": config.model.kind,
        "version": number,
        "previous": used["version"] if used else None,
        "continues_from": plan.start or None,
        "partitions": len(plan.manifest),
        "files_to_read": len(plan.files_to_read),
        "too_young": plan.too_young,
        "added": plan.changes.added,
        "changed": plan.changes.changed,
        "removed": plan.changes.removed,
        "forgotten": sorted(plan.forgotten),
        "documents": made["documents"] if made else None,
        "tokens": made["tokens"] if made else None,
        "words": made["words"] if made else None,
        "new_words": made["new_words"] if made else None,
        "bad_lines": made.get("bad_lines", 0) if made else None,
        "epochs": made["epochs"] if made else None,
        "measure": made["measure"] if made else None,
        "score": made["score"] if made else None,
        "score_before": made["score_before"] if made else None,
        "reason": decision.reason,
        "model": Versions(config.retrain.url).model(number) if number is not None else None,
        "as_of": str(request.as_of) if request.as_of else None,
    }


def _status(decision: Decision, request: RetrainRequest) -> str:
    if decision.action == "nothing":
        return "unchanged"
    if decision.action == "refuse":
        return "refused"
    if request.dry_run:
        return "planned"
    return "published"
