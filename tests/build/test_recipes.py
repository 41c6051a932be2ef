"""The recipes for clusters in the documentation."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest
import yaml

PAGE = Path(__file__).parents[2] / "docs/large-builds.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)


def test_the_names_in_the_scripts_exist() -> None:
    scripts = blocks("python")
    assert len(scripts) == 2
    for script in scripts:
        for node in ast.walk(ast.parse(script)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mastaba_build"):
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, alias.name) for alias in node.names)


def test_the_slurm_recipe_fits_dask_jobqueue() -> None:
    jobqueue = pytest.importorskip("dask_jobqueue")
    (call,) = re.findall(r"SLURMCluster\((.*?)\)", blocks("python")[0].replace("\n", " "))
    options = dict(re.findall(r'(\w+)=("[^"]*"|\d+)', call))
    values = {name: ast.literal_eval(value) for name, value in options.items()}
    with jobqueue.SLURMCluster(**values) as cluster:
        script = cluster.job_script()
        assert "--nworkers 16" in script
        assert "#SBATCH -t 04:00:00" in script
        for name in ("scale", "adapt", "wait_for_workers", "scheduler_address"):
            assert hasattr(cluster, name)


def test_the_kubernetes_recipe_is_a_cluster_and_a_job() -> None:
    (text,) = blocks("yaml")
    cluster, job = yaml.safe_load_all(text)
    assert (cluster["apiVersion"], cluster["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    service = cluster["spec"]["scheduler"]["service"]
    assert service["selector"]["dask.org/cluster-name"] == cluster["metadata"]["name"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"][1] == f"dask:tcp://{cluster['metadata']['name']}-scheduler:8786"
    try:
        operator = importlib.import_module("dask_kubernetes.operator")
    except ImportError:
        return
    assert "name" in inspect.signature(operator.make_cluster_spec).parameters
    made = operator.make_cluster_spec(name=cluster["metadata"]["name"])
    assert set(cluster["spec"]) <= set(made["spec"])
    assert service["selector"] == made["spec"]["scheduler"]["service"]["selector"]
    assert service["ports"] == made["spec"]["scheduler"]["service"]["ports"]
