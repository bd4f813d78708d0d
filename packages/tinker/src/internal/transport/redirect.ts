/**
 * Following redirects by ourselves, because what goes along is a question of trust: a credential stays with its origin.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as TinkerTransport from "../../TinkerTransport.js"

const maxHops = 5

/** All that a foreign host gets to see of us. */
const harmless = ["accept", "user-agent"]

const refused = (why: string) =>
  Effect.fail(new TinkerTransport.TransportError("connection", `redirect refused: ${why}`, undefined))

/**
 * The answer at the end of the redirects; the first answer is one.
 *
 * @internal
 */
export const follow = (
  transport: TinkerTransport.Service,
  request: TinkerTransport.Request,
  response: TinkerTransport.Response,
  hops = 0
): Effect.Effect<TinkerTransport.Response, TinkerTransport.TransportError> => {
  if (response.status < 300 || response.status >= 400) return Effect.succeed(response)
  if (hops === maxHops) return refused(`more than ${maxHops} in a row`)
  if (request.method !== "GET") return refused("only a GET can be repeated elsewhere")
  const location = response.headers["location"]
  if (location === undefined) return refused("it does not say where to")
  let target: URL
  try {
    target = new URL(location, `${request.origin}${request.path}`)
  } catch {
    return refused("its location is not a URL")
  }
  if (target.protocol !== "https:" && target.protocol !== new URL(request.origin).protocol) {
    return refused("it leaves https")
  }
  const next: TinkerTransport.Request = {
    ...request,
    origin: target.origin,
    path: `${target.pathname}${target.search}`,
    // Once outside, a way back in does not bring the credential back: headers only ever get fewer.
    headers: target.origin === request.origin
      ? request.headers
      : Object.fromEntries(Object.entries(request.headers).filter(([name]) => harmless.includes(name)))
  }
  return Effect.flatMap(transport.send(next), (answer) => follow(transport, next, answer, hops + 1))
}
