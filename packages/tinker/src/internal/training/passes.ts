/**
 * Sends a pass in the form its server reads: protobuf, or JSON where protobuf is not known to work. A form that is
 * refused is replaced by the other under the same sequence number and key, without a wait, and the tenant remembers
 * which one was accepted.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as RetryPolicy from "../../RetryPolicy.js"
import type * as TinkerError from "../../TinkerError.js"
import * as Api from "../../wire/Api.js"
import * as Endpoint from "../../wire/Endpoint.js"
import type * as ForwardBackward from "../../wire/ForwardBackward.js"
import type * as Future from "../../wire/Future.js"
import type * as ApiClient from "../transport/apiClient.js"
import type { PassForm } from "../transport/traits.js"
import type * as Submission from "./submission.js"

type PassEndpoint = Endpoint.Endpoint<ForwardBackward.Request, Future.UntypedFuture>

/** The same place as protobuf: the content type tells them apart. */
const forwardBackwardJson = Endpoint.withBodyOf(Api.forwardBackward, Api.forward)

const endpointOf = (form: PassForm, forwardOnly: boolean): PassEndpoint =>
  form === "protobuf" ? Api.forwardBackward : forwardOnly ? Api.forward : forwardBackwardJson

/** @internal */
export const send = (
  api: ApiClient.Service,
  on: Pick<Submission.Submission, "call">,
  request: ForwardBackward.Request,
  method: string
): Effect.Effect<Future.UntypedFuture, TinkerError.TinkerError> =>
  Effect.suspend(() => {
    const { traits } = api
    const forwardOnly = request.forwardOnly === true
    const form = traits.passForm(forwardOnly)
    const other: PassForm = form === "json" ? "protobuf" : "json"
    const by = (form: PassForm, options?: ApiClient.CallOptions) =>
      on.call(endpointOf(form, forwardOnly), request, method, options)
    // A 500 may be a refusal as long as the form is not known to work: then it is not retried.
    const untilRefused = Effect.flatMap(api.policies, (policies) =>
      Effect.provideService(by(form), RetryPolicy.RetryPolicy, {
        ...policies,
        submit: Schedule.whileInput(policies.submit, (error) =>
          !traits.refusesForm(form, error))
      }))

    return (traits.isCertain(form) ? by(form) : Effect.tap(untilRefused, () =>
      traits.acceptedPass(form))).pipe(
        Effect.catchIf((error) =>
          traits.refusesForm(form, error), (refusal) =>
          by(other, { retry: RetryPolicy.never }).pipe(
            Effect.tap(() => {
              traits.acceptedPass(other)
              traits.settledPasses(other)
              return traits.note("passes", `The server reads passes as ${other}, not as ${form}`)
            }),
            // Both forms were refused, so the form was not the problem.
            Effect.catchAll(() =>
              refusal._tag === "Unavailable" ? by(form) : Effect.fail(refusal)
            )
          ))
      )
  })
