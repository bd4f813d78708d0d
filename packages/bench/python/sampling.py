"""The official SDK: a line `CALLS CONCURRENCY` in, the figures as JSON out."""

import asyncio
import json
import logging
import resource
import sys
import time

import tinker
from tinker import types

logging.disable(logging.CRITICAL)


async def main(base_url: str) -> None:
    service = tinker.ServiceClient(base_url=base_url, api_key="tml-bench")
    client = await service.create_sampling_client_async(base_model="bench")
    prompt = types.ModelInput.from_ints(list(range(1000, 1200)))
    params = types.SamplingParams(max_tokens=200)

    async def run(calls: int, concurrency: int) -> dict[str, float]:
        latencies: list[float] = []
        started = 0

        async def worker() -> None:
            nonlocal started
            while started < calls:
                started += 1
                start = time.perf_counter()
                await client.sample_async(prompt, 1, params)
                latencies.append((time.perf_counter() - start) * 1000)

        begin, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(worker() for _ in range(concurrency)))
        seconds, cpu = time.perf_counter() - begin, time.process_time() - used
        latencies.sort()
        return {
            "seconds": seconds,
            "cpu": cpu,
            "p50": latencies[len(latencies) // 2],
            "p99": latencies[int(len(latencies) * 0.99)],
            "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }

    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        calls, concurrency = map(int, line.split())
        print(json.dumps(await run(calls, concurrency)), flush=True)


asyncio.run(main(sys.argv[1]))
