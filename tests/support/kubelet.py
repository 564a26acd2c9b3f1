"""A node of a Kubernetes cluster: the work of a kubelet on pods, as far as the pods of SinkQL need it.

It runs the pods bound to it, restarts containers, reports them to the API server, ends deleted pods, and resolves
names as the cluster's DNS does. It pulls no image, and has no probes and no limits of memory and cores.
"""

from __future__ import annotations

import base64
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from support.bridge import Bridge
from support.container import Container, Sandbox
from support.image import Image
from support.patience import PATIENCE_S

NODE = "node"
_LOOK_S = 0.2
_PAUSE_S = 1.0
"""Seconds until a container restarts; a real kubelet increases the pause."""
_PATCH = {"content-type": "application/strategic-merge-patch+json"}
_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)
"""The API server's answers about a deleted pod, and about a new pod of the same name with another uid."""
Json = dict[str, Any]
_Tell = Callable[[Json, Json], None]
"""A callback that reports the new state of a container; the arguments are its specification and the state."""


@dataclass(slots=True)
class Kubelet:
    """A node with these images; it writes the output of containers to `<folder>/<pod>/<container>.log`."""

    folder: Path
    network: Bridge
    api: httpx.Client
    images: Mapping[str, Image]
    _pods: dict[str, _Pod] = field(default_factory=dict)
    _left: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._work, name="kubelet", daemon=True)

    def start(self) -> None:
        """Register the node with the API server, and begin to watch pods."""
        created = self.api.post("/api/v1/nodes", json={"kind": "Node", "metadata": {"name": NODE}})
        assert created.is_success, created.text
        room = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        patched = self.api.patch(f"/api/v1/nodes/{NODE}/status", json={"status": status}, headers=_PATCH)
        assert patched.is_success, patched.text
        self._thread.start()

    def stop(self) -> None:
        """Kill all pods."""
        self._left.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE_S)
        for pod in self._pods.values():
            pod.kill()

    def container(self, pod: str, name: str) -> Container:
        """Return the latest container of the latest pod, by their names."""
        found = [each for each in self._pods.values() if each.name == pod]
        return found[-1].containers[name]

    def logs(self, pod: str) -> str:
        """Return the output of all pods of a name."""
        found = sorted(self.folder.glob(f"{pod}-*/*.log"))
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')}" for path in found)

    def _work(self) -> None:
        while not self._left.wait(_LOOK_S):
            found = self.api.get("/api/v1/pods", params={"fieldSelector": f"spec.nodeName={NODE}"})
            assert found.is_success, found.text
            there: dict[str, Json] = {each["metadata"]["uid"]: each for each in found.json()["items"]}
            for uid, told in there.items():
                if uid not in self._pods:
                    self._pods[uid] = _Pod(self, told)
                    self._pods[uid].begin()
                if "deletionTimestamp" in told["metadata"]:
                    self._pods[uid].end(told["metadata"]["deletionGracePeriodSeconds"])
            for uid in self._pods.keys() - there.keys():
                self._pods[uid].kill()


class _Pod:
    """A pod on the node, in its thread."""

    def __init__(self, node: Kubelet, told: Json) -> None:
        self.name: str = told["metadata"]["name"]
        self.containers: dict[str, Container] = {}
        self._node, self._api = node, node.api
        self._told, self._spec = told, told["spec"]
        self._namespace, self._uid = told["metadata"]["namespace"], told["metadata"]["uid"]
        self._folder = node.folder / f"{self.name}-{self._uid}"
        self._statuses: dict[str, Json] = {}
        self._address = ""
        self._ending = threading.Event()
        self._grace = 0.0
        self._thread = threading.Thread(target=self._live, name=self.name, daemon=True)

    def begin(self) -> None:
        """Start the pod."""
        self._thread.start()

    def end(self, grace: float) -> None:
        """Ask the pod to end; kill it after `grace` seconds."""
        if not self._ending.is_set():
            self._grace = grace
            self._ending.set()
            for each in [*self.containers.values()]:
                each.terminate()
            threading.Timer(grace, self._kill_containers).start()

    def kill(self) -> None:
        """Kill the pod, and wait for its thread."""
        self._ending.set()
        self._kill_containers()
        self._thread.join(PATIENCE_S)

    def _kill_containers(self) -> None:
        for each in [*self.containers.values()]:
            each.kill()

    def _live(self) -> None:
        with Sandbox(self._folder, self.name) as sandbox:
            self._address = self._node.network.join(sandbox.pid)
            volumes = self._volumes()
            if self._initialized(sandbox, volumes):
                each = [
                    threading.Thread(target=self._keep, args=(sandbox, told, volumes), daemon=True)
                    for told in self._spec["containers"]
                ]
                for thread in each:
                    thread.start()
                for thread in each:
                    thread.join()
        self._ending.wait()
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        options["preconditions"] = {"uid": self._uid}
        done = self._api.request("DELETE", self._place, json=options)
        assert done.is_success or done.status_code in _GONE, done.text

    def _volumes(self) -> dict[str, Path]:
        """Return the folders of volumes; wait for their config maps and secrets, which may come after the pod."""
        found: dict[str, Path] = {}
        for each in self._spec.get("volumes", []):
            while (path := self._volume(each)) is None and not self._ending.wait(_LOOK_S):
                pass
            if path is not None:
                found[each["name"]] = path
        return found

    def _initialized(self, sandbox: Sandbox, volumes: Mapping[str, Path]) -> bool:
        for told in self._spec.get("initContainers", []):
            while not self._ending.is_set():
                code = self._run(sandbox, told, volumes, self._told_init)
                if code == 0:
                    break
                if self._spec["restartPolicy"] == "Never":
                    self._tell("Failed")
                    return False
                self._ending.wait(_PAUSE_S)
        return not self._ending.is_set()

    def _keep(self, sandbox: Sandbox, told: Json, volumes: Mapping[str, Path]) -> None:
        """Run a container, and restart it as the pod's policy says."""
        policy = self._spec["restartPolicy"]
        while not self._ending.is_set():
            code = self._run(sandbox, told, volumes, self._told_running)
            if policy == "Never" or (policy == "OnFailure" and code == 0):
                break
            self._ending.wait(_PAUSE_S)
        states = [each["state"].get("terminated") for each in self._statuses.values()]
        if all(states) and len(states) == len(self._spec["containers"]) and policy != "Always":
            self._tell("Failed" if any(each["exitCode"] for each in states) else "Succeeded")

    def _told_init(self, told: Json, state: Json) -> None:
        self._tell("Pending")

    def _told_running(self, told: Json, state: Json) -> None:
        before = self._statuses.get(told["name"], {})
        self._statuses[told["name"]] = {
            "name": told["name"],
            "image": told["image"],
            "imageID": told["image"],
            "ready": "running" in state,
            "started": "running" in state,
            "restartCount": before.get("restartCount", -1) + ("running" in state),
            "state": state,
            "lastState": before.get("state", {}),
        }
        self._tell("Running")

    def _tell(self, phase: str) -> None:
        """Report the pod's state to the API server."""
        whole = len(self._statuses) == len(self._spec["containers"])
        ready = whole and all(each["ready"] for each in self._statuses.values())
        conditions = {"Initialized": phase != "Pending", "ContainersReady": ready, "Ready": ready}
        status = {
            "phase": phase,
            "hostIP": self._node.network.address,
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "conditions": [{"type": name, "status": str(value)} for name, value in conditions.items()],
            "containerStatuses": [*self._statuses.values()],
        }
        body = {"metadata": {"uid": self._uid}, "status": status}
        done = self._api.patch(f"{self._place}/status", json=body, headers=_PATCH)
        assert done.is_success or done.status_code in _GONE, done.text

    @property
    def _place(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}/pods/{self.name}"

    def _run(self, sandbox: Sandbox, told: Json, volumes: Mapping[str, Path], tell: _Tell) -> int:
        """Run a container to its end, and return its exit code."""
        image = self._node.images[told["image"]]
        mounts = {each["mountPath"]: volumes[each["name"]] for each in told.get("volumeMounts", [])}
        command = [*told.get("command", image.entrypoint)]
        command += told.get("args", () if "command" in told else image.command)
        secured = {**self._spec.get("securityContext", {}), **told.get("securityContext", {})}
        container = Container(
            sandbox,
            told["name"],
            image,
            command=command,
            environment={**image.environment, **self._environment(told)},
            user=secured.get("runAsUser", image.user),
            group=secured.get("fsGroup"),
            mounts=mounts,
            hosts=self._hosts(),
        )
        assert not secured.get("runAsNonRoot") or container.user
        container.start()
        self.containers[told["name"]] = container
        if self._ending.is_set():
            container.terminate()
        tell(told, {"running": {}})
        code = container.wait()
        tell(told, {"terminated": {"exitCode": code}})
        return code

    def _environment(self, told: Json) -> dict[str, str]:
        found = {"KUBERNETES_SERVICE_HOST": self._node.network.address, "KUBERNETES_SERVICE_PORT": "443"}
        for each in told.get("envFrom", []):
            data = self._data("secrets", each["secretRef"]["name"])
            assert data is not None
            found |= {name: value.decode() for name, value in data.items()}
        for each in told.get("env", []):
            found[each["name"]] = self._value(each)
        return found

    def _value(self, told: Json) -> str:
        if "valueFrom" not in told:
            return str(told.get("value", ""))
        path = told["valueFrom"]["fieldRef"]["fieldPath"]
        if path == "status.podIP":
            return self._address
        value = self._told
        for name in path.split("."):
            value = value[name]
        return str(value)

    def _volume(self, told: Json) -> Path | None:
        """Return the folder of a volume; None if its config map or secret does not exist yet."""
        path: Path = self._folder / "volumes" / str(told["name"])
        match told:
            case {"persistentVolumeClaim": claim}:
                return self._claimed(claim["claimName"])
            case {"emptyDir": _}:
                path.mkdir(parents=True)
                path.chmod(0o777)
            case {"configMap": options}:
                data = self._data("configmaps", options["name"])
                return _filled(path, data, options)
            case {"secret": options}:
                data = self._data("secrets", options["secretName"])
                return _filled(path, data, options)
            case _:
                raise NotImplementedError(told)
        return path

    def _claimed(self, claim: str) -> Path:
        bound = self._get(f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims/{claim}")
        assert bound is not None
        volume = self._get(f"/api/v1/persistentvolumes/{bound['spec']['volumeName']}")
        assert volume is not None
        path = Path(volume["spec"]["hostPath"]["path"])
        path.mkdir(parents=True, exist_ok=True)
        group = self._spec.get("securityContext", {}).get("fsGroup")
        if group is not None:
            shutil.chown(path, group=group)
            path.chmod(0o2775)
        return path

    def _data(self, kind: str, name: str) -> dict[str, bytes] | None:
        found = self._get(f"/api/v1/namespaces/{self._namespace}/{kind}/{name}")
        if found is None:
            return None
        if kind == "secrets":
            return {each: base64.b64decode(value) for each, value in found.get("data", {}).items()}
        return {each: value.encode() for each, value in found.get("data", {}).items()}

    def _hosts(self) -> str:
        """Return a hosts file in place of the cluster's DNS: the addresses of services and of their pods."""
        lines = ["127.0.0.1 localhost", f"{self._address} {self.name}"]
        endpoints = self._get("/api/v1/endpoints")
        assert endpoints is not None
        for each in endpoints["items"]:
            name, space = each["metadata"]["name"], each["metadata"]["namespace"]
            service = f"{name}.{space}.svc"
            for address in (address for part in each.get("subsets", []) for address in part.get("addresses", [])):
                host = f"{address['hostname']}.{service}" if "hostname" in address else ""
                lines.append(f"{address['ip']} {host} {service}")
        return "".join(f"{line}\n" for line in lines)

    def _get(self, place: str) -> Json | None:
        """Return an object; None if it does not exist."""
        found = self._api.get(place)
        if found.status_code == HTTPStatus.NOT_FOUND:
            return None
        assert found.is_success, found.text
        told: Json = found.json()
        return told


def _filled(path: Path, data: Mapping[str, bytes] | None, options: Json) -> Path | None:
    """Fill a folder with the files of a config map or secret that its volume selects."""
    if data is None:
        return None
    path.mkdir(parents=True)
    named = {each["key"]: each["path"] for each in options.get("items") or ()} or {name: name for name in data}
    for key, name in named.items():
        path.joinpath(name).write_bytes(data[key])
    return path
