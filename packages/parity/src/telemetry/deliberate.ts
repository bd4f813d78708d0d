/**
 * Where our reports differ from the official SDK's on purpose, and why. A field is named `EVENT.field`, with `*` for
 * every event; generic events go by their event name.
 */

const repeats = "a sentence of the server or of an exception can repeat a prompt"
const paths = "stack traces name files of the user's machine, and quote messages"

/** Fields that only the official SDK sends. */
export const leftOut: Readonly<Record<string, string>> = {
  "*.exception_stack": paths,
  "*.traceback": paths,
  "*.request_headers": "they hold the API key",
  "*.response_headers": "they say nothing about the client, and may hold cookies",
  "*.response_body": repeats,
  "*.body": repeats,
  "*.detail": repeats,
  "APIFuture.result_async.application_error.error": repeats,
  "*.model_cls": "the name of a Python class; request_type says the same"
}

/** Fields both send, with words of their own. */
export const ownWords: Readonly<Record<string, string>> = {
  "*.message": `operation, kind, status and request id; ${repeats}`,
  "*.error_message": `operation, kind, status and request id; ${repeats}`,
  "*.exception": `operation, kind, status and request id; ${repeats}`,
  "*.func": "module and method of this SDK",
  "APIFuture.result_async.validation_error.exception_type": "the error this SDK gives its caller",
  "user_error.error_type": "Python wraps some failures of a result in a ValueError; we name the failure",
  "UNHANDLED_EXCEPTION.error_type": "Python wraps some failures of a result in a ValueError; we name the failure"
}

/** Events that only one side sends at this place. */
export const events: Readonly<Record<string, string>> = {
  "SESSION_END":
    "the official SDK sends it with every failure that reaches a caller and not when the session ends; we send it when it ends"
}

export const reasonFor = (table: Readonly<Record<string, string>>, event: string, field: string): string | undefined =>
  table[`${event}.${field}`] ?? table[`*.${field}`]
