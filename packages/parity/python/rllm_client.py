"""rLLM's gateway client, unmodified, against a gateway: an agent of two turns, and what the client reads of it.

    python -m rllm_client URL KEY     prints what the client read, as one JSON object
"""

import json
import sys

import httpx
from rllm_model_gateway import GatewayClient


def main(url, key):
    # the client has no option for a key, but an address can hold one
    scheme, host = url.split("://")
    with GatewayClient(f"{scheme}://key:{key}@{host}") as client:
        session = client.create_session("rllm-1", metadata={"task": 1})
        messages = []
        for question in ("Thank you very much", "And again"):
            messages.append({"role": "user", "content": question})
            answer = httpx.post(
                f"{client.get_session_url(session)}/chat/completions", json={"messages": messages}, timeout=120
            )
            answer.raise_for_status()
            messages.append(answer.json()["choices"][0]["message"])
        traces = client.get_session_traces(session)
        print(
            json.dumps(
                {
                    "health": client.health()["status"],
                    "flushed": client.flush(),
                    "sessions": [entry["session_id"] for entry in client.list_sessions(limit=10)],
                    "count": client.get_session_info(session)["trace_count"],
                    "texts": [message["content"] for message in messages[1::2]],
                    "traces": [trace.model_dump() for trace in traces],
                    "last": client.get_trace(traces[-1].trace_id).model_dump(),
                    "limited": len(client.get_session_traces(session, since=0, limit=1)),
                    "deleted": client.delete_session(session),
                }
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
