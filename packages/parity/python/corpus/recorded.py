"""What the SDK's clients really send: every method, against a server that only writes down what it is asked."""

from __future__ import annotations

import json
import os
import re
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable
from urllib.parse import parse_qsl, urlsplit

os.environ["TINKER_TELEMETRY"] = "0"
warnings.simplefilter("ignore")

import tinker  # noqa: E402
from tinker import types  # noqa: E402
from tinker.lib.public_interfaces.admin_client import AdminClient  # noqa: E402
from tinker.lib.public_interfaces.rest_client import RestClient  # noqa: E402
from tinker.proto import tinker_public_pb2 as pb  # noqa: E402

WHEN = "2026-01-02T03:04:05Z"
RUN = {
    "training_run_id": "run", "base_model": "b", "model_owner": "o", "is_lora": True, "last_request_time": WHEN,
}
SAMPLE = pb.SampleResponse(sequences=[pb.SampledSequence(tokens=b"\x01\0\0\0", logprobs=b"\0\0\0\xbf")])
OUTPUT = pb.ForwardBackwardOutput(loss_fn_output_type="T", metrics={"loss:sum": 1.0})

RESULTS: dict[str, Any] = {
    "CreateModel": {"model_id": "session:train:0", "type": "create_model"},
    "OptimStep": {"metrics": {}},
    "SaveWeights": {"path": "tinker://run/weights/x", "type": "save_weights"},
    "SaveWeightsForSampler": {
        "path": "tinker://run/sampler_weights/x", "sampling_session_id": "session:sample:9", "type": "save_weights_for_sampler"},
    "SaveWeightsExternal": {"path": "tinker://run/external_weights/x", "type": "save_weights_external"},
    "LoadWeights": {"path": "tinker://run/weights/x", "type": "load_weights"},
    "Sample": SAMPLE,
    "Forward": OUTPUT,
    "ForwardBackward": OUTPUT,
}

ANSWERS: list[tuple[str, str, Any]] = [
    ("POST", r"/client/config", {}),
    ("POST", r"/client/dynamic_config", {}),
    ("POST", r"/create_session", {"session_id": "session"}),
    ("POST", r"/session_heartbeat", {}),
    ("POST", r"/create_sampling_session", {"sampling_session_id": "session:sample:0"}),
    ("POST", r"/get_info", {"model_id": "session:train:0", "model_data": {"tokenizer_id": "t", "model_name": "b"}}),
    ("POST", r"/weights_info", {"base_model": "b", "is_lora": True, "lora_rank": 8}),
    ("POST", r"/copy_weights", {"tinker_path": "tinker://copy/weights/x"}),
    ("POST", r"/sessions/search", {"sessions": []}),
    ("POST", r"/asample", {"request_id": "request", "sample_sequence_ids": ["session:sample:0:0:0"]}),
    ("POST", r"/(create_model|forward_backward|optim_step|save_weights\w*|load_weights)", {"request_id": "request"}),
    ("GET", r"/get_server_capabilities", {"supported_models": []}),
    ("GET", r"/training_runs/[^/]+/checkpoints", {"checkpoints": []}),
    ("GET", r"/training_runs/.*/external_weights_urls", {"urls": {}, "expires": WHEN}),
    ("GET", r"/training_runs/[^/]+", RUN),
    ("GET", r"/training_runs", {"training_runs": [], "cursor": {"offset": 0, "limit": 20, "total_count": 0}}),
    ("GET", r"/checkpoints", {"checkpoints": []}),
    ("GET", r"/samplers/.*", {"sampler_id": "s", "base_model": "b"}),
    ("GET", r"/sessions", {"sessions": []}),
    ("GET", r"/sessions/[^/]+/trace_export", {"status": "ready", "url": "https://x/y"}),
    ("GET", r"/sessions/[^/]+", {"training_run_ids": [], "sampler_ids": []}),
    ("GET", r"/audit", {"entries": []}),
    ("GET", r"/billing/usage/events", {"data": []}),
    ("GET", r"/billing/usage/checkpoints/current", {"data": []}),
]

# What tells requests apart, without what only tells runs apart.
KEPT = re.compile(r"^(accept|content-type|content-encoding|x-sdk-method|x-tinker-(?!create-promise).*)$")


def canonical(body: bytes) -> bytes:
    """The same message with its maps in the order of their keys, which is not otherwise fixed."""
    return pb.ForwardBackwardRequest.FromString(body).SerializeToString(deterministic=True)


class Recorder:
    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                kind, answer = recorder.take(self.command, self.path, dict(self.headers), body)
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[str, bytes]:
        url = urlsplit(target)
        lower = {name.lower(): value for name, value in headers.items()}
        kept = {name: value for name, value in sorted(lower.items()) if KEPT.match(name)}
        entry: dict[str, Any] = {"method": method, "path": url.path, "query": dict(parse_qsl(url.query)), "headers": kept}
        if body:
            proto = "protobuf" in lower.get("content-type", "")
            entry["body"] = {"hex": canonical(body).hex()} if proto else json.loads(body)
        with self.lock:
            self.requests.append(entry)
        path = url.path.removeprefix("/api/v1")
        if path == "/retrieve_future":
            result = RESULTS[lower["x-tinker-request-type"]]
            if not isinstance(result, dict):
                return "application/x-protobuf", result.SerializeToString()
            return "application/json", json.dumps(result).encode()
        answer = next((a for m, p, a in ANSWERS if m == method and re.fullmatch(p, path)), {})
        return "application/json", json.dumps(answer).encode()

    def during(self, call: Callable[[], Any]) -> list[dict[str, Any]]:
        with self.lock:
            self.requests.clear()
        value = call()
        if hasattr(value, "result"):
            value.result()
        with self.lock:
            return [r for r in self.requests if "heartbeat" not in r["path"]]


def calls(url: str) -> list[tuple[str, Callable[[], Any]]]:
    rest = RestClient(base_url=url, api_key="tml-x")
    admin = AdminClient(base_url=url, api_key="tml-x")
    service = tinker.ServiceClient(base_url=url, api_key="tml-x", project_id="project", user_metadata={"k": "v"})
    kept: dict[str, Any] = {}
    path = "tinker://run:train:0/weights/0001"

    def keep(name: str, value: Any) -> Any:
        kept[name] = value.result()
        return None

    datum = types.Datum(
        model_input=types.ModelInput.from_ints([1, 2]),
        loss_fn_inputs={"target_tokens": [2, 3], "weights": [0.5, 1.0]},
    )
    params = types.SamplingParams(max_tokens=5, stop=["\n"])
    prompt = types.ModelInput.from_ints([1, 2, 3])
    return [
        ("RestClient.get_training_run", lambda: rest.get_training_run("run:train:0")),
        ("RestClient.get_training_run accessible", lambda: rest.get_training_run("run", access_scope="accessible")),
        ("RestClient.get_training_run_by_tinker_path", lambda: rest.get_training_run_by_tinker_path(path)),
        ("RestClient.list_training_runs", lambda: rest.list_training_runs()),
        ("RestClient.list_training_runs page", lambda: rest.list_training_runs(limit=5, offset=10, project_id="p")),
        ("RestClient.get_weights_info_by_tinker_path", lambda: rest.get_weights_info_by_tinker_path(path)),
        ("RestClient.list_checkpoints", lambda: rest.list_checkpoints("run:train:0")),
        ("RestClient.list_user_checkpoints", lambda: rest.list_user_checkpoints()),
        ("RestClient.delete_checkpoint", lambda: rest.delete_checkpoint("run:train:0", "weights/0001")),
        ("RestClient.delete_checkpoint_from_tinker_path", lambda: rest.delete_checkpoint_from_tinker_path(path)),
        ("RestClient.publish_checkpoint_from_tinker_path", lambda: rest.publish_checkpoint_from_tinker_path(path)),
        ("RestClient.unpublish_checkpoint_from_tinker_path", lambda: rest.unpublish_checkpoint_from_tinker_path(path)),
        ("RestClient.set_checkpoint_ttl_from_tinker_path", lambda: rest.set_checkpoint_ttl_from_tinker_path(path, 3600)),
        ("RestClient.set_checkpoint_ttl_from_tinker_path none", lambda: rest.set_checkpoint_ttl_from_tinker_path(path, None)),
        ("RestClient.get_external_weights_urls", lambda: rest.get_external_weights_urls("tinker://run/external_weights/x")),
        ("RestClient.copy_weights", lambda: rest.copy_weights(path, "project")),
        ("RestClient.get_session", lambda: rest.get_session("session")),
        ("RestClient.list_sessions", lambda: rest.list_sessions()),
        ("RestClient.assign_session_project", lambda: rest.assign_session_project("session", "project")),
        ("RestClient.export_session_trace", lambda: rest.export_session_trace("session")),
        ("RestClient.get_sampler", lambda: rest.get_sampler("session:sample:0")),
        ("RestClient.search_sessions", lambda: rest.search_sessions(types.SessionSearchRequest(display_name="x"))),
        ("AdminClient.get_audit_log", lambda: admin.get_audit_log()),
        ("AdminClient.get_billing_usage", lambda: admin.get_billing_usage("2026-07-13T00:00:00Z", "2026-07-14T00:00:00Z")),
        ("AdminClient.get_current_checkpoint_storage_usage", lambda: admin.get_current_checkpoint_storage_usage("p")),
        ("ServiceClient.get_server_capabilities", lambda: service.get_server_capabilities() and None),
        ("ServiceClient.create_lora_training_client", lambda: keep(
            "training", service.create_lora_training_client("base", rank=8, seed=1))),
        ("TrainingClient.forward_backward", lambda: kept["training"].forward_backward([datum], "cross_entropy")),
        ("TrainingClient.forward", lambda: kept["training"].forward([datum], "ppo", {"clip_low_threshold": 0.8})),
        ("TrainingClient.optim_step", lambda: kept["training"].optim_step(types.AdamParams(learning_rate=1e-5))),
        ("TrainingClient.save_state", lambda: kept["training"].save_state("x", ttl_seconds=3600)),
        ("TrainingClient.save_weights_for_sampler", lambda: kept["training"].save_weights_for_sampler("x")),
        ("TrainingClient.save_weights_and_get_sampling_client", lambda: keep(
            "ephemeral", kept["training"].save_weights_and_get_sampling_client())),
        ("ServiceClient.create_sampling_client", lambda: keep(
            "sampling", service.create_sampling_client(base_model="base"))),
        ("SamplingClient.sample", lambda: kept["sampling"].sample(prompt, num_samples=1, sampling_params=params)),
        ("SamplingClient.compute_logprobs", lambda: kept["sampling"].compute_logprobs(prompt)),
        ("ServiceClient.create_training_client_from_state", lambda: keep(
            "resumed", service.create_training_client_from_state(path))),
        ("ServiceClient.create_training_client_from_state_with_optimizer", lambda: keep(
            "resumed", service.create_training_client_from_state_with_optimizer(path))),
        ("ServiceClient.copy_weights", lambda: service.copy_weights(path)),
        ("ServiceClient.close", lambda: service.close("success")),
    ]


def vectors() -> dict[str, Any]:
    recorder = Recorder()
    return {"calls": [{"call": name, "requests": recorder.during(call)} for name, call in calls(recorder.url)]}
