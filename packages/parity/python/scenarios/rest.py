"""What the service knows of runs, checkpoints, sessions and usage."""

import datetime

from tinker import types

from .connection import FEW, SCENARIOS, Connection, prompt, scenario

RUN = "00000000-0000-4000-a000-000000000000:train:0"
PATH = f"tinker://{RUN}/weights/one"


@scenario
def rest_runs(c: Connection) -> None:
    training = c.training()
    rest = c.rest()
    rest.list_training_runs().result()
    rest.list_training_runs(limit=5, offset=1, access_scope="accessible", project_id="project-1").result()
    rest.get_training_run(training.model_id).result()
    rest.get_training_run(training.model_id, access_scope="accessible").result()
    rest.get_training_run_by_tinker_path(f"tinker://{training.model_id}/weights/one").result()


@scenario
def rest_checkpoints(c: Connection) -> None:
    training = c.training()
    path = training.save_state("one").result().path
    rest = c.rest()
    rest.list_checkpoints(training.model_id).result()
    rest.list_user_checkpoints().result()
    rest.list_user_checkpoints(limit=5, offset=2).result()
    rest.get_weights_info_by_tinker_path(path).result()


@scenario
def rest_checkpoint_changes(c: Connection) -> None:
    path = c.training().save_state("one").result().path
    rest = c.rest()
    rest.publish_checkpoint_from_tinker_path(path).result()
    rest.unpublish_checkpoint_from_tinker_path(path).result()
    rest.set_checkpoint_ttl_from_tinker_path(path, 7200).result()
    rest.set_checkpoint_ttl_from_tinker_path(path, None).result()
    rest.delete_checkpoint_from_tinker_path(path).result()


@scenario
def rest_copy(c: Connection) -> None:
    path = c.training().save_state("one").result().path
    c.rest().copy_weights(path, "project-1", ttl_seconds=3600).result()


@scenario
def rest_copy_with_token(c: Connection) -> None:
    path = c.training().save_state("one").result().path
    c.rest().copy_weights(path, "project-1", weights_access_token="tml-reader").result()


@scenario
def rest_external_urls(c: Connection) -> None:
    path = c.training().save_weights_external("one").result().path
    c.rest().get_external_weights_urls(path).result()


@scenario
def rest_external_urls_of_another_kind(c: Connection) -> None:
    c.rest().get_external_weights_urls(PATH).result()


@scenario
def rest_sessions(c: Connection) -> None:
    c.sampling()
    session = c.service.holder.get_session_id()
    rest = c.rest()
    rest.list_sessions().result()
    rest.list_sessions(limit=3, offset=1, access_scope="accessible").result()
    rest.get_session(session).result()
    rest.get_session(session, access_scope="accessible").result()
    rest.assign_session_project(session, "project-1").result()


@scenario
def rest_search(c: Connection) -> None:
    rest = c.rest()
    rest.search_sessions(types.SessionSearchRequest()).result()
    rest.search_sessions(
        types.SessionSearchRequest(
            display_name="name",
            project_ids=["project-1"],
            user_metadata={"a": "b"},
            limit=10,
            owner=types.AccessibleSearchOwner(),
            statuses=[types.ActiveSessionStatusQuery(), types.FailedSessionStatusQuery()],
        )
    ).result()


@scenario
def rest_trace(c: Connection) -> None:
    c.sampling()
    c.rest().export_session_trace(c.service.holder.get_session_id()).result()


@scenario
def rest_sampler(c: Connection) -> None:
    c.sampling().sample(prompt(), 1, FEW).result()
    rest = c.rest()
    session = rest.get_session(c.service.holder.get_session_id()).result()
    rest.get_sampler(session.sampler_ids[0]).result()


@scenario
def rest_audit(c: Connection) -> None:
    admin = c.admin()
    admin.get_audit_log().result()
    admin.get_audit_log(event_type="checkpoints", day=datetime.date(2026, 1, 2)).result()


@scenario
def rest_billing(c: Connection) -> None:
    admin = c.admin()
    start = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.timezone.utc)
    admin.get_billing_usage(start, start + datetime.timedelta(hours=2)).result()
    admin.get_current_checkpoint_storage_usage().result()
    admin.get_current_checkpoint_storage_usage("project-1").result()


@scenario
def rest_malformed_path(c: Connection) -> None:
    c.rest().delete_checkpoint_from_tinker_path("tinker://run/weights/one/two").result()


@scenario
def rest_path_without_kind(c: Connection) -> None:
    c.rest().delete_checkpoint_from_tinker_path("tinker://run/one").result()


def get_run(c: Connection) -> None:
    c.rest().get_training_run(RUN).result()


for name in ("rest_404", "rest_401", "rest_403", "rest_429", "rest_500", "rest_dropped"):
    SCENARIOS[name] = get_run


def publish(c: Connection) -> None:
    c.rest().publish_checkpoint_from_tinker_path(PATH).result()


for name in ("rest_publish_409", "rest_publish_500"):
    SCENARIOS[name] = publish
