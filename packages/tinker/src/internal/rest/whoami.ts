import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Account from "../../Account.js"
import * as ErrorChannel from "../transport/errorChannel.js"
import * as tokenExchange from "../transport/tokenExchange.js"
import type { Call, Caller } from "./caller.js"
import { invalid } from "./caller.js"

/**
 * Who the credential belongs to, as the token says that the server gives for it.
 *
 * @internal
 */
export const whoami: (caller: Caller) => Call<Account.WhoamiResponse> = Effect.fnUntraced(function*({ begin, via }) {
  yield* begin
  const token = yield* via.identityToken
  const own = Option.isSome(token) ? token : yield* via.credentials.current
  const claims = Option.match(own, {
    onNone: () => Either.left("there is no credential"),
    onSome: tokenExchange.claims
  })
  const text = (key: string): string | undefined => {
    const value = Either.isRight(claims) ? claims.right[key] : undefined
    return typeof value === "string" && value !== "" ? value : undefined
  }
  const userUrn = text("sub")
  if (userUrn === undefined) {
    return yield* invalid("whoami", "the server gives out no tokens, and a plain API key does not say whose it is")
  }
  const organization = text("org_id")
  return new Account.WhoamiResponse({
    userUrn,
    orgUrn: organization === undefined ? undefined : `tml:organization:${organization}`,
    email: text("email")
  })
}, ErrorChannel.request)
