"""The official SDK through a session in which everything goes wrong once: `python -m telemetry BASE_URL`.

What it reports about it is recorded by the server.
"""

import asyncio
import logging
import os
import sys

os.environ.update(TINKER_BASE_URL=sys.argv[1], TINKER_API_KEY="tml-parity", TINKER_TELEMETRY="1")
logging.disable(logging.CRITICAL)

import tinker  # noqa: E402
from tinker import types  # noqa: E402


async def failing(name: str, awaitable) -> None:
    try:
        result = await awaitable
        if hasattr(result, "__await__"):
            await result
        print(f"{name}: ok")
    except Exception as error:  # noqa: BLE001
        print(f"{name}: {type(error).__name__}")


async def main() -> None:
    service = tinker.ServiceClient()
    training = await service.create_lora_training_client(base_model="base", rank=8)
    for step in ["refused", "user", "server", "forbidden", "expired", "malformed", "busy"]:
        await failing(step, training.optim_step(types.AdamParams()))
    sampler = await service.create_sampling_client(base_model="base")
    prompt = types.ModelInput.from_ints([1, 2, 3])
    for name in ["sample", "lost sample"]:
        await failing(name, sampler.sample(prompt, 1, types.SamplingParams(max_tokens=1)))
    await service.close("success")


async def rest() -> None:
    client = tinker.ServiceClient().create_rest_client()
    await failing("rest", client.get_training_run("missing"))


if __name__ == "__main__":
    asyncio.run(rest() if sys.argv[2:] == ["rest"] else main())
