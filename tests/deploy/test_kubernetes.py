"""The kustomization for Kubernetes, checked without a cluster."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from mastaba.config.schema import SchemaValidator
from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application
from mastaba_conformance.tiny_installation import tiny_installation
from mastaba_doctor.answer import ask_inside
from mastaba_documents.faults import Faults

Resource = dict[str, Any]
PREFIX = "/maps"
# The oldest and the newest version whose resources are checked.
VERSIONS = ["1.29", kubernetes_validate.latest_version()]
GRACEFUL_STOP = 40


@pytest.fixture(scope="module")
def folder(deploy: Path) -> Path:
    return deploy / "kubernetes"


@pytest.fixture(scope="module")
def example(folder: Path) -> Path:
    return folder / "overlays" / "example"


@pytest.fixture(scope="module")
def base(folder: Path) -> dict[str, Resource]:
    """Return the resources of the base and the ingress by kind."""
    listed = yaml.safe_load((folder / "base" / "kustomization.yaml").read_text("utf-8"))
    files = [folder / "base" / name for name in listed["resources"]]
    files.append(folder / "overlays" / "example" / "ingress.yaml")
    resources = [yaml.safe_load(file.read_text("utf-8")) for file in files]
    return {resource["kind"]: resource for resource in resources}


@pytest.fixture(scope="module")
def container(base: dict[str, Resource]) -> Resource:
    (found,) = base["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def server(folder: Path) -> Resource:
    document: Resource = json.loads((folder / "base" / "server.json").read_text("utf-8"))
    return document


@pytest.fixture(scope="module")
def rendered(example: Path) -> dict[str, Resource]:
    """Return the resources of the example as they are applied, by kind."""
    if program := shutil.which("kustomize"):
        command = [program, "build"]
    elif program := shutil.which("kubectl"):
        command = [program, "kustomize"]
    else:
        pytest.skip("neither kustomize nor kubectl is installed")
    done = subprocess.run([*command, example], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    resources = list(yaml.safe_load_all(done.stdout))
    found = {resource["kind"]: resource for resource in resources}
    assert len(found) == len(resources)
    return found


def check_schema(resources: dict[str, Resource]) -> None:
    for version in VERSIONS:
        for resource in resources.values():
            kubernetes_validate.validate(resource, version, strict=True)


def test_all_resources_are_valid(base: dict[str, Resource]) -> None:
    kinds = {"Deployment", "Service", "Ingress", "HorizontalPodAutoscaler", "PodDisruptionBudget"}
    assert set(base) == kinds
    check_schema(base)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Deployment", ["spec", "template", "spec", "containers", 0, "readynessProbe"], {}),
        ("Deployment", ["spec", "template", "spec", "terminationGracePeriodSeconds"], "long"),
        ("HorizontalPodAutoscaler", ["spec", "maxReplicas"], None),
        ("PodDisruptionBudget", ["spec", "maxUnavaillable"], 1),
    ],
)
def test_the_check_finds_mistakes(
    base: dict[str, Resource], kind: str, path: list[Any], value: object
) -> None:
    resource = deepcopy(base[kind])
    place: Any = resource
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        check_schema({kind: resource})


def test_what_is_applied_is_valid(rendered: dict[str, Resource]) -> None:
    check_schema(rendered)
    assert {"ConfigMap", "Secret", "Deployment", "HorizontalPodAutoscaler"} <= set(rendered)
    assert {resource["metadata"]["namespace"] for resource in rendered.values()} == {"maps"}


def test_the_overlay_completes_the_deployment(rendered: dict[str, Resource]) -> None:
    pod = rendered["Deployment"]["spec"]["template"]["spec"]
    names = {kind: resource["metadata"]["name"] for kind, resource in rendered.items()}
    # Both names contain a digest: a change of either replaces the pods.
    assert pod["volumes"][0]["configMap"]["name"] == names["ConfigMap"] != "mastaba"
    (container,) = pod["containers"]
    assert container["envFrom"][0]["secretRef"]["name"] == names["Secret"] != "mastaba-storage"
    registry, _, version = container["image"].rpartition(":")
    assert registry
    assert version != "latest"
    services = json.loads(rendered["ConfigMap"]["data"]["services.json"])
    assert {"health", "metrics", "wmts"} <= set(services)
    assert "server.json" in rendered["ConfigMap"]["data"]


def test_selectors_find_the_pods(base: dict[str, Resource]) -> None:
    spec = base["Deployment"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert base["Service"]["spec"]["selector"] == labels
    assert base["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels


def test_names_that_are_mentioned_exist(base: dict[str, Resource], container: Resource) -> None:
    pod = base["Deployment"]["spec"]["template"]["spec"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    target = base["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == (
        "Deployment",
        base["Deployment"]["metadata"]["name"],
    )
    (rule,) = base["Ingress"]["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"]["name"] == base["Service"]["metadata"]["name"]
    (port,) = base["Service"]["spec"]["ports"]
    assert path["backend"]["service"]["port"]["name"] == port["name"]
    assert port["targetPort"] in {port["name"] for port in container["ports"]}


def test_probes_and_prometheus_ask_what_the_server_answers(
    base: dict[str, Resource], container: Resource, example: Path, tmp_path: Path
) -> None:
    services = json.loads((example / "services.json").read_text("utf-8"))
    sections = {name: services[name] for name in ("health", "metrics")}
    installation = tiny_installation(
        tmp_path, services=["health", "metrics"], services_overrides=sections
    )
    application = create_application(str(installation))
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container[name]["httpGet"]
        assert probe["port"] == "http"
        assert ask_inside(application, probe["path"]).status == 200
    annotations = base["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert int(annotations["prometheus.io/port"]) == container["ports"][0]["containerPort"]
    page = ask_inside(application, annotations["prometheus.io/path"])
    application.site.catalogue.storages.close()
    assert container["readinessProbe"]["httpGet"]["path"].endswith("/ready")
    assert container["livenessProbe"]["httpGet"]["path"].endswith("/live")
    (metric,) = (
        metric["pods"]["metric"]["name"]
        for metric in base["HorizontalPodAutoscaler"]["spec"]["metrics"]
        if metric["type"] == "Pods"
    )
    assert page.status == 200
    assert f"\n{metric} 0.0\n".encode() in page.body


def test_the_adapter_offers_the_metric_of_the_autoscaler(
    folder: Path, base: dict[str, Resource]
) -> None:
    values = yaml.safe_load((folder / "prometheus-adapter.yaml").read_text("utf-8"))
    (rule,) = values["rules"]["custom"]
    metric = base["HorizontalPodAutoscaler"]["spec"]["metrics"][0]["pods"]["metric"]["name"]
    assert rule["name"]["as"] == metric
    assert re.fullmatch(rule["name"]["matches"], metric)
    assert re.match(r"\w+", rule["seriesQuery"])[0] == metric  # type: ignore[index]
    # The adapter refuses a rule whose series do not have the labels of the resources.
    for label, resource in rule["resources"]["overrides"].items():
        assert f'{label}!=""' in rule["seriesQuery"]
        assert resource == {"resource": label}
    assert set(re.findall(r"<<\.(\w+)>>", rule["metricsQuery"])) == {
        "Series",
        "LabelMatchers",
        "GroupBy",
    }


def test_the_autoscaler_acts_before_all_threads_are_busy(
    base: dict[str, Resource], container: Resource, server: Resource
) -> None:
    busy, cpu = base["HorizontalPodAutoscaler"]["spec"]["metrics"]
    threads = server["workers"] * server["threads"]
    assert 0 < float(busy["pods"]["target"]["averageValue"]) <= 0.75 * threads
    # The target is a percentage of the request, so a request is required.
    assert cpu["resource"]["name"] in container["resources"]["requests"]
    assert "replicas" not in base["Deployment"]["spec"]
    assert base["HorizontalPodAutoscaler"]["spec"]["minReplicas"] >= 2


def test_pods_are_confined(base: dict[str, Resource], container: Resource) -> None:
    pod = base["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_a_pod_has_time_to_stop(
    base: dict[str, Resource], container: Resource, server: Resource
) -> None:
    pod = base["Deployment"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= GRACEFUL_STOP + server["drain"]
    # The endpoint is removed while the pod still answers.
    assert server["drain"] > container["readinessProbe"]["periodSeconds"]
    # No pod stops before another one is ready.
    assert base["Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@pytest.mark.parametrize("file", ["base/server.json", "overlays/example/services.json"])
def test_no_error_is_reported_for_the_configuration_of_the_pods(folder: Path, file: str) -> None:
    faults = Faults()
    path = folder / file
    document = json.loads(path.read_text("utf-8"))
    assert SchemaValidator(path.stem, Plugins()).validate(document, path.stem, faults) is not None
    assert faults.all == ()


def test_the_variables_of_the_pods_are_read_by_the_server(
    container: Resource, example: Path, repository: Path
) -> None:
    lines = (example / "storage.env").read_text("utf-8").splitlines()
    names = {line.partition("=")[0] for line in lines} | {item["name"] for item in container["env"]}
    sources = "".join(
        path.read_text("utf-8")
        for part in ("core/src", "plugins")
        for path in (repository / part).rglob("*.py")
    )
    assert {name for name in names if f'"{name.removeprefix("MASTABA_")}"' not in sources} == set()


def test_the_ingress_rewrites_nothing(example: Path) -> None:
    services = json.loads((example / "services.json").read_text("utf-8"))
    published = [section for section in services.values() if "endpoint_uri" in section]
    assert published
    for section in published:
        assert section["endpoint_uri"].endswith(section["root_path"])
        assert section["root_path"].startswith(PREFIX)
    # What is for operators is not below the prefix.
    assert not services["metrics"]["root_path"].startswith(PREFIX)


def test_the_image_has_what_the_pods_need(deploy: Path, example: Path, container: Resource) -> None:
    text = (deploy / "container" / "Containerfile").read_text("utf-8")
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.M)
    assert json.loads(command) == container["args"]
    (port,) = re.findall(r"^EXPOSE (\d+)$", text, re.M)
    assert int(port) == container["ports"][0]["containerPort"]
    assert f":{port}" in container["args"][1]
    (packages,) = re.findall(r'^ARG PACKAGES="(.*)"$', text, re.M)
    services = json.loads((example / "services.json").read_text("utf-8"))
    # The core has the service health.
    assert set(services) - {"global", "health"} <= set(packages.split())
    assert "storage_s3" in packages.split()
