"""The official SDK: a line `STEPS` in, the figures as JSON out."""

import asyncio
import json
import logging
import sys
import time

import tinker
from tinker import types

logging.disable(logging.CRITICAL)

BATCH, LENGTH = 4, 64


async def main(base_url: str) -> None:
    service = tinker.ServiceClient(base_url=base_url, api_key="tml-bench")
    client = await service.create_lora_training_client_async(base_model="bench")
    data = []
    for row in range(BATCH):
        tokens = [1000 + row * 100 + i for i in range(LENGTH)]
        data.append(
            types.Datum(
                model_input=types.ModelInput.from_ints(tokens[:-1]),
                loss_fn_inputs={"target_tokens": tokens[1:], "weights": [1.0] * (LENGTH - 1)},
            )
        )
    params = types.AdamParams(learning_rate=1e-4)

    async def run(steps: int) -> dict[str, float]:
        begin, used = time.perf_counter(), time.process_time()
        futures = []
        for _ in range(steps):
            futures.append(await client.forward_backward_async(data, "cross_entropy"))
            futures.append(await client.optim_step_async(params))
        await asyncio.gather(*(future.result_async() for future in futures))
        return {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - used}

    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await run(int(line))), flush=True)


asyncio.run(main(sys.argv[1]))
