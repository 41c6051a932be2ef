"""The samples, checked without starting a program."""

from __future__ import annotations

import configparser
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mastaba.commands.main import main
from mastaba.config.faults import Faults
from mastaba.config.schema import SchemaValidator
from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application
from mastaba_conformance.tiny_installation import tiny_installation
from mastaba_doctor.answer import ask_inside

Resource = dict[str, Any]
PREFIX = "/maps"


@pytest.fixture(scope="module")
def resources(deploy: Path) -> dict[str, Resource]:
    """Return the resources of the Kubernetes manifest by kind."""
    text = (deploy / "kubernetes" / "mastaba.yaml").read_text("utf-8")
    documents = list(yaml.safe_load_all(text))
    found = {document["kind"]: document for document in documents}
    assert len(found) == len(documents)
    return found


@pytest.fixture(scope="module")
def container(resources: dict[str, Resource]) -> Resource:
    (found,) = resources["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """The sections of a systemd unit; a key may stand there several times."""
    sections: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            section.setdefault(key, []).append(value)
    return sections


# ---------------------------------------------------------------- Kubernetes


def test_all_resources_are_present(resources: dict[str, Resource]) -> None:
    assert set(resources) == {
        "ConfigMap",
        "Secret",
        "Deployment",
        "Service",
        "Ingress",
        "HorizontalPodAutoscaler",
        "PodDisruptionBudget",
    }
    for resource in resources.values():
        assert resource["apiVersion"]
        assert resource["metadata"]["name"].startswith("mastaba")


def test_selectors_find_the_pods(resources: dict[str, Resource]) -> None:
    spec = resources["Deployment"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert resources["Service"]["spec"]["selector"] == labels
    assert resources["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels


def test_names_that_are_mentioned_exist(
    resources: dict[str, Resource], container: Resource
) -> None:
    names = {kind: resource["metadata"]["name"] for kind, resource in resources.items()}
    pod = resources["Deployment"]["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    assert volumes["configuration"]["configMap"]["name"] == names["ConfigMap"]
    assert container["envFrom"][0]["secretRef"]["name"] == names["Secret"]
    target = resources["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", names["Deployment"])
    (rule,) = resources["Ingress"]["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"]["name"] == names["Service"]
    (port,) = resources["Service"]["spec"]["ports"]
    assert path["backend"]["service"]["port"]["name"] == port["name"]
    assert port["targetPort"] in {port["name"] for port in container["ports"]}


def test_probes_ask_what_the_server_answers(container: Resource, tmp_path: Path) -> None:
    application = create_application(str(tiny_installation(tmp_path, services=["health"])))
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container[name]["httpGet"]
        assert probe["port"] == "http"
        assert ask_inside(application, probe["path"]).status == 200
    application.site.catalogue.storages.close()
    assert container["readinessProbe"]["httpGet"]["path"].endswith("/ready")
    assert container["livenessProbe"]["httpGet"]["path"].endswith("/live")


def test_pods_are_confined(resources: dict[str, Resource], container: Resource) -> None:
    pod = resources["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    # Longer than an ordered stop and the pause before it.
    assert pod["terminationGracePeriodSeconds"] > 30 + 5


def test_requests_fit_the_autoscaler(resources: dict[str, Resource], container: Resource) -> None:
    (metric,) = resources["HorizontalPodAutoscaler"]["spec"]["metrics"]
    # The target is a percentage of the request, so a request is required.
    assert metric["resource"]["target"]["type"] == "Utilization"
    assert metric["resource"]["name"] in container["resources"]["requests"]
    assert "replicas" not in resources["Deployment"]["spec"]


@pytest.mark.parametrize("name", ["server", "services"])
def test_no_error_is_reported_for_the_configuration_of_the_pods(
    resources: dict[str, Resource], name: str
) -> None:
    faults = Faults()
    document = json.loads(resources["ConfigMap"]["data"][f"{name}.json"])
    assert SchemaValidator(name, Plugins()).validate(document, name, faults) is not None
    assert faults.all == ()


def test_the_ingress_rewrites_nothing(resources: dict[str, Resource]) -> None:
    services = json.loads(resources["ConfigMap"]["data"]["services.json"])
    published = [section for section in services.values() if "endpoint_uri" in section]
    assert published
    for section in published:
        assert section["endpoint_uri"].endswith(section["root_path"])
        assert section["root_path"].startswith(PREFIX)


# ---------------------------------------------------------------- systemd


def test_the_service_is_stopped_and_reloaded_as_the_server_expects(deploy: Path) -> None:
    service = unit(deploy / "systemd" / "mastaba.service")["Service"]
    assert service["Type"] == ["notify"]
    assert service["NotifyAccess"] == ["main"]
    assert service["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert service["KillSignal"] == ["SIGQUIT"]
    assert service["User"] == service["Group"] == ["mastaba"]
    assert service["WorkingDirectory"] == ["/etc/mastaba"]
    assert service["EnvironmentFile"] == ["-/etc/mastaba/env"]
    assert int(service["TimeoutStopSec"][0]) > 30


def test_the_socket_is_where_the_front_servers_look(deploy: Path) -> None:
    (path,) = unit(deploy / "systemd" / "mastaba.socket")["Socket"]["ListenStream"]
    runtime = unit(deploy / "systemd" / "mastaba.service")["Service"]["RuntimeDirectory"][0]
    assert path == f"/run/{runtime}/mastaba.sock"
    for name in ("nginx/mastaba.conf", "apache/mastaba-proxy.conf"):
        assert f"unix:{path}" in (deploy / name).read_text("utf-8")


def test_the_program_is_started_by_one_name(deploy: Path) -> None:
    (start,) = unit(deploy / "systemd" / "mastaba.service")["Service"]["ExecStart"]
    program = start.split()[0]
    assert program in (deploy / "apache" / "mastaba-fcgid.conf").read_text("utf-8")


def test_variables_of_the_environment_file_are_read_somewhere(
    deploy: Path, repository: Path
) -> None:
    text = (deploy / "systemd" / "env.sample").read_text("utf-8")
    lines = [line.lstrip("#") for line in text.splitlines() if re.match(r"#?[A-Z0-9_]+=", line)]
    names = {line.partition("=")[0] for line in lines}
    sources = "".join(
        path.read_text("utf-8")
        for folder in ("core/src", "plugins")
        for path in (repository / folder).rglob("*.py")
    )
    ours = {name.removeprefix("MASTABA_") for name in names if name.startswith("MASTABA_")}
    assert len(ours) > 10
    assert {name for name in ours if f'"{name}"' not in sources} == set()
    assert names - {f"MASTABA_{name}" for name in ours} == {"HTTPS_PROXY", "NO_PROXY"}
    # A file that has not been edited sets nothing.
    parser = configparser.ConfigParser()
    parser.read_string("[env]\n" + text)
    assert list(parser["env"]) == []


# ---------------------------------------------------------------- container


def test_the_image_installs_packages_that_exist(deploy: Path, repository: Path) -> None:
    text = (deploy / "container" / "Containerfile").read_text("utf-8")
    found = re.search(r'^ARG PACKAGES="(.*)"$', text, re.M)
    assert found
    for name in found[1].split():
        assert (repository / "plugins" / name / "pyproject.toml").exists()


def test_the_image_and_the_manifest_agree(deploy: Path, container: Resource) -> None:
    text = (deploy / "container" / "Containerfile").read_text("utf-8")
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.M)
    assert json.loads(command) == container["args"]
    (port,) = re.findall(r"^EXPOSE (\d+)$", text, re.M)
    assert int(port) == container["ports"][0]["containerPort"]
    assert f":{port}" in container["args"][1]


def test_the_command_line_of_the_image_is_understood(
    deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (deploy / "container" / "Containerfile").read_text("utf-8")
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.M)
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.M)
    # The file does not exist here. The arguments are valid, because no usage is printed.
    assert main([*json.loads(entry)[1:], *json.loads(command)]) == 1
    printed = capsys.readouterr().err
    assert "/etc/mastaba/server.json" in printed
    assert "usage" not in printed
