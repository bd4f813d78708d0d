"""Saving, loading and sampling from what was saved."""

from tinker import types

from .connection import FEW, MODEL, SCENARIOS, Connection, prompt, scenario

AGE = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"


@scenario
def save_state(c: Connection) -> None:
    c.training().save_state("one").result()


@scenario
def save_state_every_option(c: Connection) -> None:
    training = c.training()
    training.save_state("one", ttl_seconds=3600, user_metadata={"step": "1"}).result()
    training.save_state("one", ttl_seconds=7200, overwrite=True).result()


@scenario
def save_state_refused(c: Connection) -> None:
    training = c.training()
    refused = training.save_state("one", ttl_seconds=5)
    training.optim_step(types.AdamParams(learning_rate=1e-4)).result()
    refused.result()


@scenario
def save_sampler(c: Connection) -> None:
    c.training().save_weights_for_sampler("one").result()


@scenario
def save_sampler_every_option(c: Connection) -> None:
    c.training().save_weights_for_sampler("one", ttl_seconds=3600, user_metadata={"step": "1"}).result()


@scenario
def save_external(c: Connection) -> None:
    c.training().save_weights_external("one").result()


@scenario
def save_external_every_option(c: Connection) -> None:
    c.training().save_weights_external("one", ttl_seconds=3600, age_encryption_recipients=[AGE]).result()


@scenario
def sample_ephemeral(c: Connection) -> None:
    training = c.training()
    training.save_weights_and_get_sampling_client().result().sample(prompt(), 1, FEW).result()
    training.optim_step(types.AdamParams(learning_rate=1e-4)).result()
    training.save_weights_and_get_sampling_client(record_stability_info=True).result().sample(prompt(), 1, FEW).result()


@scenario
def sample_checkpoint(c: Connection) -> None:
    training = c.training()
    path = training.save_weights_for_sampler("one").result().path
    c.service.create_sampling_client(model_path=path).result().sample(prompt(), 1, FEW).result()
    training.create_sampling_client(path).result().sample(prompt(), 1, FEW).result()


@scenario
def sample_checkpoint_with_base(c: Connection) -> None:
    path = c.training().save_weights_for_sampler("one").result().path
    c.service.create_sampling_client(model_path=path, base_model=MODEL).result()


@scenario
def load_state(c: Connection) -> None:
    path = c.training().save_state("one").result().path
    c.training().load_state(path).result()


@scenario
def load_state_with_optimizer(c: Connection) -> None:
    path = c.training().save_state("one").result().path
    c.training().load_state_with_optimizer(path).result()


@scenario
def load_state_late(c: Connection) -> None:
    training = c.training()
    path = training.save_state("one").result().path
    training.load_state(path).result()


def resume(c: Connection) -> None:
    path = c.training().save_state("one").result().path
    c.service.create_training_client_from_state(path).result()


def resume_with_optimizer(c: Connection) -> None:
    path = c.training().save_state("one").result().path
    c.service.create_training_client_from_state_with_optimizer(path).result()


def resume_every_option(c: Connection) -> None:
    path = c.training().save_state("one").result().path
    c.service.create_training_client_from_state(
        path, base_model=MODEL, user_metadata={"from": "one"}, weights_access_token="tml-reader"
    ).result()


for name in ("resume", "resume_in_one_request"):
    SCENARIOS[name] = resume
for name in ("resume_with_optimizer", "resume_with_optimizer_in_one_request"):
    SCENARIOS[name] = resume_with_optimizer
for name in ("resume_every_option", "resume_every_option_in_one_request"):
    SCENARIOS[name] = resume_every_option
