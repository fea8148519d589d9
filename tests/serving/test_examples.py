"""The image and the examples: what cannot run here is parsed, and checked against what it names."""

import argparse
import ast
import asyncio
import importlib.util
import json
import re
import shlex
import sys
import tomllib
import types
from pathlib import Path

import httpx
import yaml
from packaging.requirements import Requirement

from hf_summ.cli import serve as command
from hf_summ.serving import Limits
from tests.conftest import SENTENCES, run_python

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
DOCKER = ROOT / "docker"


def instructions() -> dict[str, list[str]]:
    """The Dockerfile's instructions -> their arguments, in their order."""
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    arguments_of: dict[str, list[str]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            name, _, arguments = line.partition(" ")
            arguments_of.setdefault(name, []).append(arguments)
    return arguments_of


def parsed(*argv: str) -> argparse.Namespace:
    """Arguments of the command line, as `hf-summ serve` parses them."""
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return parser.parse_args(argv)


def test_the_image_serves_the_model_of_the_package():
    dockerfile = instructions()
    assert next(iter(dockerfile)) == "FROM"
    # a version with its last number, and dependencies before the code that changes
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", dockerfile["FROM"][0])
    assert dockerfile["COPY"] == ["constraints.txt pyproject.toml ./", ". ."]
    program, *entry = json.loads(dockerfile["ENTRYPOINT"][0])
    arguments = parsed(*entry)
    assert (program, arguments.host, arguments.port) == ("hf-summ", "0.0.0.0", int(dockerfile["EXPOSE"][0]))
    # without the flag, it is the model of the package
    assert arguments.model is None
    assert dockerfile["USER"] == ["1000"]
    assert any("useradd" in line and "--uid 1000 service" in line for line in dockerfile["RUN"])
    assert dockerfile["ENV"] == [f"HF_HOME={dockerfile['VOLUME'][0]}"]
    assert f"http://127.0.0.1:{arguments.port}/health" in dockerfile["HEALTHCHECK"][0]
    # all that the wheel is built from is sent to the builder
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    sent = re.findall(r"^!/(.+)$", ignored, re.MULTILINE)
    needed = {"src", "configs", "constraints.txt", "model_cards", "pyproject.toml", "README.md", "LICENSE"}
    assert needed <= set(sent)
    for name in sent:
        assert (ROOT / name).exists(), name


def test_the_dependencies_of_the_image_are_those_of_the_package(tmp_path):
    (code,) = re.findall(r'python -c "(.*?)" > requirements', instructions()["RUN"][0])
    (tmp_path / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    printed, _ = run_python("-c", code, cwd=tmp_path)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert printed.splitlines() == [*project["dependencies"], *extras["serve"], *extras["spacy"]]


def test_the_service_of_kserve_has_the_arguments_of_the_image():
    service = yaml.safe_load((EXAMPLES / "kserve" / "inference_service.yaml").read_text(encoding="utf-8"))
    assert (service["apiVersion"], service["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    predictor = service["spec"]["predictor"]
    (container,) = predictor["containers"]
    entry = json.loads(instructions()["ENTRYPOINT"][0])[1:]
    arguments = parsed(*entry, *container["args"])
    assert container["ports"][0]["containerPort"] == arguments.port
    paths = {"startupProbe": "/health", "readinessProbe": "/ready", "livenessProbe": "/health"}
    for probe, path in paths.items():
        assert container[probe]["httpGet"] == {"path": path, "port": arguments.port}
    assert predictor["terminationGracePeriodSeconds"] > arguments.drain_seconds


def test_the_deployment_of_ray_serve_answers(monkeypatch, summarizer, shipped):
    """Ray's own server needs more than Ray, so its decorators are replaced by ones that record their arguments."""
    recorded = {}

    def decorator(name):
        def decorate(*values, **settings):
            recorded[name] = (*values, settings)
            return lambda decorated: type(decorated.__name__, (decorated,), {"bind": classmethod(lambda _: name)})

        return decorate

    ray = types.ModuleType("ray")
    ray.serve = types.SimpleNamespace(deployment=decorator("deployment"), ingress=decorator("ingress"))
    monkeypatch.setitem(sys.modules, "ray", ray)
    spec = importlib.util.spec_from_file_location("ray_serve", EXAMPLES / "ray_serve.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert (example.summarizer, recorded["ingress"]) == ("deployment", (example.build_app, {}))
    assert recorded["deployment"] == ({"max_ongoing_requests": Limits().limit_queue},)
    summarizer.save_pretrained(shipped)

    async def answer():
        transport = httpx.ASGITransport(example.build_app())
        async with httpx.AsyncClient(transport=transport, base_url="http://replica") as client:
            return await client.post("/", json={"inputs": SENTENCES[0]})

    assert asyncio.run(answer()).json() == summarizer(SENTENCES[0])


def test_the_space_has_the_files_that_it_needs():
    folder = EXAMPLES / "space"
    _, front, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    settings = yaml.safe_load(front)
    assert (settings["sdk"], settings["app_file"]) == ("gradio", "app.py")
    assert {"title", "emoji", "colorFrom", "colorTo", "sdk_version", "license"} <= settings.keys()
    assert text.strip()
    tree = ast.parse((folder / settings["app_file"]).read_text(encoding="utf-8"))
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
    assert modules == {"gradio", "hf_summ", "os"}
    _, requirement = (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert not Requirement(requirement).extras


def test_documented_commands_are_those_of_the_parser():
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    for line in re.findall(r"^\$ hf-summ (serve .*)$", page, re.MULTILINE):
        assert parsed(*shlex.split(line)).run is command.run
    timeouts = re.findall(r"docker run .*--stop-timeout (\d+)", page)
    assert len(timeouts) == page.count("docker run ")
    for seconds in timeouts:
        assert int(seconds) > parsed("serve").drain_seconds
