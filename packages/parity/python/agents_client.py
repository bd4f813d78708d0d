"""Agents with openai-python, unmodified, against a gateway; and what the official cookbook makes of the recorded calls.

    python -m agents_client run URL KEY      talks to the gateway; prints what the agent saw, a JSON object a rollout
    python -m agents_client rows JOB         prints the rows of trajectory_to_data for the trajectories of a job file
"""

import json
import sys

QUESTION = "What is the price of the lamp?"

TOOL = {
    "name": "get_price",
    "description": "Get the price of an item.",
    "parameters": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
}


def client_of(url, key, rollout):
    from openai import OpenAI

    return OpenAI(base_url=f"{url}/rollouts/{rollout}/v1", api_key=key, max_retries=0)


def whole(client):
    answer = client.chat.completions.create(
        model="any",
        messages=[{"role": "user", "content": "Thank you very much"}],
        logprobs=True,
        extra_body={"return_token_ids": True},
    )
    choice = answer.choices[0]
    return {
        "text": choice.message.content,
        "finish": choice.finish_reason,
        "prompt": answer.model_extra["prompt_token_ids"],
        "sampled": choice.model_extra["token_ids"],
        "logprobs": [entry.logprob for entry in choice.logprobs.content],
    }


def streamed(client):
    stream = client.chat.completions.create(
        model="any",
        messages=[{"role": "user", "content": "Thank you very much"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    text, finish, usage = "", None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return {"text": text, "finish": finish, "tokens": usage.completion_tokens}


def tools(client):
    """Two questions, each with a tool. Arguments are written again before they are sent back, as frameworks do."""
    messages = []
    for question in (QUESTION, "What is the price of the table?"):
        messages.append({"role": "user", "content": question})
        for _ in range(4):
            answer = client.chat.completions.create(
                model="any", messages=messages, tools=[{"type": "function", "function": TOOL}]
            )
            message = answer.choices[0].message
            calls = message.tool_calls or []
            echoed = {"role": "assistant", "content": message.content}
            if calls:
                echoed["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {
                            "name": call.function.name,
                            "arguments": json.dumps(json.loads(call.function.arguments), indent=1),
                        },
                    }
                    for call in calls
                ]
            messages.append(echoed)
            if not calls:
                break
            for call in calls:
                messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps({"value": 496})})
    return {"text": messages[-1]["content"], "turns": sum(message["role"] == "assistant" for message in messages)}


def responses(client):
    declared = [{"type": "function", "strict": False, **TOOL}]
    first = client.responses.create(model="any", input=QUESTION, tools=declared)
    items = [{"role": "user", "content": QUESTION}, *first.output]
    for item in first.output:
        if item.type == "function_call":
            items.append({"type": "function_call_output", "call_id": item.call_id, "output": '{"value": 496}'})
    with client.responses.stream(model="any", input=items, tools=declared) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    return {"text": final.output_text, "turns": 2}


def completions(client):
    prompt = "<|im_start|>user\nThank you very much<|im_end|>\n<|im_start|>assistant\n"
    answer = client.completions.create(model="any", prompt=prompt)
    return {"text": answer.choices[0].text, "models": [model.id for model in client.models.list()]}


def run(url, key):
    for name, agent in (
        ("whole", whole),
        ("streamed", streamed),
        ("tools", tools),
        ("responses", responses),
        ("completions", completions),
    ):
        rollout = f"python-{name}"
        print(json.dumps({"rollout": rollout, **agent(client_of(url, key, rollout))}))


def rows(path):
    import tinker
    from tinker_cookbook.completers import TokensWithLogprobs
    from tinker_cookbook.rl.data_processing import trajectory_to_data
    from tinker_cookbook.rl.types import Trajectory, Transition

    for calls in json.load(open(path)):
        trajectory = Trajectory(
            transitions=[
                Transition(
                    ob=tinker.ModelInput.from_ints(call["prompt"]),
                    ac=TokensWithLogprobs(tokens=call["sampled"], maybe_logprobs=call["logprobs"]),
                    reward=0.0,
                    episode_done=index == len(calls) - 1,
                )
                for index, call in enumerate(calls)
            ],
            final_ob=tinker.ModelInput.empty(),
        )
        data = trajectory_to_data(trajectory, 0.5)
        print(
            json.dumps(
                [
                    {
                        "inputs": datum.model_input.to_ints(),
                        "targets": datum.loss_fn_inputs["target_tokens"].tolist(),
                        "logprobs": datum.loss_fn_inputs["logprobs"].tolist(),
                        "advantages": datum.loss_fn_inputs["advantages"].tolist(),
                        "mask": datum.loss_fn_inputs["mask"].tolist(),
                    }
                    for datum in data
                ]
            )
        )


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(*sys.argv[2:])
    else:
        rows(sys.argv[2])
