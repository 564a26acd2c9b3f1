"""Sinks on Kubernetes, whose executors are pods of the image that deploy/Dockerfile builds."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.pipeline import Pipeline
from cluster.shop import MANIFEST, Shop, manifest
from support.bridge import bridge
from support.catalog import server_url
from support.command import start
from support.image import Image, build
from support.kubernetes import HOME, Kubernetes, kubernetes
from support.patience import Deadline
from support.postgres import Postgres
from support.seaweed import SECRET, Seaweed

pytestmark = [pytest.mark.soak, pytest.mark.server]

_ROOT = Path(__file__).parents[2]
_FILES = (40_000,) * 4
_SINK = "materialize.public.s"
_IMAGE, _BARE = "sinkql", "bare"
"""The image as built, and the image with only Spark and Python."""
_OWN, _SPARK_THERE = "/opt/sinkql/bin:", "/opt/sinkql/lib/python3.11/site-packages/pyspark"
_INSTALLED = {"spark.archives": "", "spark.kubernetes.container.image": _IMAGE}
_HANDED_OUT = {
    "spark.authenticate": "true",
    "spark.kubernetes.container.image": _BARE,
    "spark.network.crypto.enabled": "true",
}
_KEY = "A" * 43 + "="
_LOOKING, _MAKING = "get,list,watch", "create,delete,deletecollection"
_ALL = "pods,configmaps,persistentvolumeclaims"
_EXECUTORS = ("--selector", "spark-role=executor")


@pytest.fixture(scope="module")
def image() -> Image:
    return build(_ROOT, "deploy/Dockerfile", home=HOME)


@pytest.fixture(scope="module")
def cluster(
    machines: None, server: Seaweed, catalogs: Postgres, image: Image, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kubernetes]:
    path = image.environment["PATH"]
    assert path.startswith(_OWN)
    bare = {"PATH": path.removeprefix(_OWN), "SPARK_HOME": _SPARK_THERE}
    folder = tmp_path_factory.mktemp("kubernetes") / "cluster"
    with (
        bridge(server.s3, server.rest, catalogs.port) as network,
        kubernetes(folder, network, {_IMAGE: image, _BARE: replace(image, environment=bare)}) as running,
    ):
        yield running


def _objects(*kinds: str) -> str:
    """Return the objects of these kinds in deploy/kubernetes.yaml."""
    found = yaml.safe_load_all(MANIFEST.read_text())
    return str(yaml.safe_dump_all(each for each in found if each["kind"] in kinds))


@pytest.fixture(scope="module")
def account(cluster: Kubernetes) -> dict[str, str]:
    """Return settings for a driver outside of Kubernetes with the account of deploy/kubernetes.yaml."""
    cluster.kubectl("apply", "--filename", "-", text=_objects("ServiceAccount", "Role", "RoleBinding"))
    return _settings(cluster, "sinkql")


def _settings(cluster: Kubernetes, account: str) -> dict[str, str]:
    """Return settings for a driver outside of Kubernetes with a service account."""
    deadline = Deadline()
    while not (found := [each for each in cluster.objects("secrets") if _account_of(each) == account]):
        deadline.check("a token")
    token = cluster.folder / account
    token.write_bytes(base64.b64decode(found[0]["data"]["token"]))
    return {
        "spark.kubernetes.authenticate.caCertFile": str(cluster.authority),
        "spark.kubernetes.authenticate.oauthTokenFile": str(token),
        "spark.kubernetes.authenticate.serviceAccountName": account,
    }


def _account_of(secret: dict[str, Any]) -> str | None:
    annotations: dict[str, str] = secret["metadata"].get("annotations", {})
    return annotations.get("kubernetes.io/service-account.name")


@pytest.mark.parametrize(
    ("name", "conf"), [("installed", _INSTALLED), ("handed_out", _HANDED_OUT)], ids=["installed", "handed out"]
)
def test_executors_are_pods(
    server: Seaweed, cluster: Kubernetes, account: dict[str, str], tmp_path: Path, name: str, conf: dict[str, str]
) -> None:
    host = cluster.network.address
    pipeline = Pipeline(server, f"k8s://{cluster.url}", tmp_path, f"pods_{name}", {**account, **conf}, host=host)
    pipeline.put(*_FILES)
    running = start("exec", "pipeline.sql", folder=tmp_path)
    try:
        running.wait_for_rows({_SINK: pipeline.count})
        before = {each["metadata"]["name"] for each in cluster.objects("pods", *_EXECUTORS)}
        assert len(before) == 2
        cluster.kubectl("delete", "pod", sorted(before)[0], "--grace-period=0", "--force")
        pipeline.put(*_FILES)
        running.wait_for_rows({_SINK: pipeline.count})
        shown = cluster.kubectl("get", "pods,configmaps,events", "--output", "json")
        assert [each for each in (SECRET, str(tmp_path)) if each in shown] == []
        assert running.interrupt() == 0
    except BaseException:
        print(cluster.kubectl("get", "pods", "--output", "wide"), cluster.kubelet.logs("sinkql"))
        raise
    finally:
        running.kill()
    assert pipeline.expected == pipeline.rows()
    assert [path for path in pipeline.written() if "-t" not in path] == []  # by tasks, not by the driver
    assert cluster.objects("pods", *_EXECUTORS) == []


@pytest.mark.parametrize("may", [{}, {_LOOKING: _ALL}, {_LOOKING: _ALL, _MAKING: "configmaps"}], ids=len)
def test_sinks_wait_for_what_is_forbidden(
    server: Seaweed, cluster: Kubernetes, account: dict[str, str], tmp_path: Path, may: dict[str, str]
) -> None:
    name = f"may{len(may)}"
    cluster.kubectl("create", "serviceaccount", name)
    for number, (verbs, resources) in enumerate(may.items()):
        role = f"{name}-{number}"
        cluster.kubectl("create", "role", role, f"--verb={verbs}", f"--resource={resources}")
        cluster.kubectl("create", "rolebinding", role, f"--role={role}", f"--serviceaccount=default:{name}")
    conf = {**_settings(cluster, name), **_INSTALLED, "spark.scheduler.maxRegisteredResourcesWaitingTime": "15s"}
    host = cluster.network.address
    pipeline = Pipeline(server, f"k8s://{cluster.url}", tmp_path, f"pods_{name}", conf, host=host)
    pipeline.put(*_FILES)
    running = start("exec", "pipeline.sql", folder=tmp_path)
    try:
        stalled = running.wait_for_end()
        assert stalled["error"]["code"] == "SQ4056"
        assert "orbidden" in stalled["error"]["detail"]
        cluster.kubectl("create", "rolebinding", name, "--role=sinkql", f"--serviceaccount=default:{name}")
        running.wait_for_rows({_SINK: pipeline.count})
        assert running.interrupt() == 0
    except BaseException:
        print("".join(path.read_text() for path in tmp_path.rglob("spark.log")))
        raise
    finally:
        running.kill()
    assert pipeline.expected == pipeline.rows()


def test_the_manifest_runs(server: Seaweed, cluster: Kubernetes, catalogs: Postgres, tmp_path: Path) -> None:
    """The driver is a pod of deploy/kubernetes.yaml, with the connections, sizes and times of this test in its SQL.

    Its volume is a folder of the node. The driver is killed in its pod, and later the pod is deleted.
    """
    shop = Shop(server)
    shop.put()
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "20Gi"},
            "hostPath": {"path": str(tmp_path / "disk")},
        },
    }
    cluster.kubectl("create", "--filename", "-", text=yaml.safe_dump(volume))
    catalog = server_url(catalogs, Path(".sinkql")).replace("127.0.0.1", cluster.network.address)
    told = {"SINKQL_CATALOG": catalog, "SINKQL_CATALOG_KEY": _KEY, "LAKE_KEY": SECRET}
    literals = (f"--from-literal={name}={value}" for name, value in told.items())
    cluster.kubectl("create", "secret", "generic", "sinkql", *literals)
    try:
        cluster.kubectl("apply", "--filename", "-", text=manifest(server, cluster.network.address))
        shop.wait()
        (first, second) = cluster.objects("pods", *_EXECUTORS)
        (driver,) = cluster.objects("pods", "--selector", "app=sinkql")
        owners = {each["metadata"]["ownerReferences"][0]["uid"] for each in (first, second)}
        assert owners == {driver["metadata"]["uid"]}
        cluster.kubectl("delete", "pod", first["metadata"]["name"])
        shop.put()
        shop.wait()
        cluster.kubelet.container("sinkql-0", "sinkql").kill()
        shop.put()
        shop.wait()
        cluster.kubectl("delete", "pod", "sinkql-0", "--grace-period=0", "--force")
        shop.put()
        shop.wait()
        cluster.kubectl("delete", "pod", "sinkql-0")  # the driver commits its batch first
        shop.put()
        shop.wait()
        shown = cluster.kubectl("get", "pods,configmaps,events", "--output", "json")
        assert [each for each in told.values() if each in shown] == []
    except BaseException:
        print(cluster.kubectl("get", "pods,pvc,endpoints", "--output", "wide"))
        print(cluster.kubelet.logs("sinkql"))
        raise
