"""What clients do when a server does not do what they ask. What the server does is said in the twin."""

from tinker import types

from .connection import FEW, SCENARIOS, Connection, datum, prompt


def step(c: Connection) -> None:
    c.training().optim_step(types.AdamParams(learning_rate=1e-4)).result()


def save(c: Connection) -> None:
    c.training().save_state("one").result()


def sample(c: Connection) -> None:
    c.sampling().sample(prompt(), 1, FEW).result()


def forward_backward(c: Connection) -> None:
    c.training().forward_backward([datum("cat: meow")], "cross_entropy").result()


for run, names in (
    (
        step,
        """
        submit_400 submit_400_empty submit_401 submit_402 submit_403 submit_404 submit_408 submit_409 submit_410
        submit_422 submit_429 submit_500_twice submit_503 submit_dropped submit_answer_lost
        should_retry_true should_retry_false
        retry_after_seconds retry_after_fraction retry_after_millis retry_after_date retry_after_too_long
        retry_after_zero retry_after_millis_first
        poll_400_once poll_400_for_ever poll_400_empty poll_401 poll_402 poll_404 poll_408 poll_408_queue_state
        poll_410 poll_429 poll_500_twice poll_dropped
        poll_try_again poll_try_again_reason poll_failed_user poll_failed_server
        create_model_500 create_model_402
        """,
    ),
    (save, "save_500 save_429"),
    (forward_backward, "pass_500 pass_429 poll_410_of_a_pass"),
    (
        sample,
        """
        sample_400 sample_400_empty sample_402 sample_404 sample_408 sample_409 sample_410 sample_429_twice
        sample_500 sample_dropped sample_poll_410 sample_poll_429 sample_poll_500 sample_failed_user
        sampler_500 sampler_409
        """,
    ),
):
    for name in names.split():
        SCENARIOS[name] = run
