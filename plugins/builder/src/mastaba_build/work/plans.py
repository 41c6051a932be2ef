"""The plan of any configuration: of rasters, of vector tiles, of features, or of a service."""

from __future__ import annotations

from mastaba_build.config.configuration import Configuration
from mastaba_build.errors import PlanError
from mastaba_build.harvest.address import SERVICE
from mastaba_build.harvest.plan import make_harvest_plan
from mastaba_build.plan.plan import Plan, make_plan
from mastaba_build.vector.features import plan_of_features
from mastaba_build.vector.formats import is_archive, is_features
from mastaba_build.vector.plan import FORMAT, make_vector_plan


def plan_of(configuration: Configuration) -> Plan:
    """Return the plan of a configuration; its first source decides of which kind.

    Raises:
        PlanError: a source, the tile matrix set or an option does not fit.
    """
    first = configuration.sources[0].path
    has_services = any(SERVICE.match(source.path) for source in configuration.sources)
    if configuration.top_only and (has_services or is_features(first) or is_archive(first)):
        raise PlanError("--top-only is for images, which a layer shows itself at the finest level")
    if has_services:
        return make_harvest_plan(configuration)
    if is_features(first):
        return plan_of_features(configuration)
    if is_archive(first) or configuration.format.upper() in ("MVT", FORMAT):
        return make_vector_plan(configuration)
    return make_plan(configuration)
