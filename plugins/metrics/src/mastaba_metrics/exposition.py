"""The text format of Prometheus (exposition formats, version 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Sample = tuple[str, Mapping[str, str], float]
"""Suffix of the metric name (such as ``_sum``), labels, and value."""

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metric(name: str, kind: str, description: str, samples: Iterable[Sample]) -> str:
    """Return one metric with all its samples, or an empty string if there are none."""
    lines = [
        f"{name}{suffix}{_labels(labels)} {_number(value)}" for suffix, labels, value in samples
    ]
    if not lines:
        return ""
    return "\n".join((f"# HELP {name} {description}", f"# TYPE {name} {kind}", *lines, ""))


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
