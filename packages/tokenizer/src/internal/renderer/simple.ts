/**
 * The two formats without reasoning or tools: `Role: text` for base models, and Llama 3.
 */
import * as Messages from "../../Message.js"
import type { Format, Piece } from "./format.js"
import { control, Refusal, text } from "./format.js"

/** @internal */
export const roleColon = (bos: string | undefined): Format => ({
  name: "role_colon",
  bos: bos === undefined ? [] : [control(bos)],
  message: (message) => ({
    header: [text(`${message.role.charAt(0).toUpperCase()}${message.role.slice(1).toLowerCase()}:`)],
    output: [text(` ${Messages.text(message)}\n\n`)],
    overlap: message.role === "assistant" ? [text("User:")] : []
  }),
  suffix: (role) => [text(`${role.charAt(0).toUpperCase()}${role.slice(1).toLowerCase()}:`)],
  stops: [],
  parsing: { _tag: "string", stop: "\n\nUser:" },
  extends: true,
  disablesThinking: false,
  tools: () => new Refusal("the format has no way to call tools")
})

const header = (role: string): ReadonlyArray<Piece> => [
  control("<|start_header_id|>"),
  text(role),
  control("<|end_header_id|>"),
  text("\n\n")
]

/** @internal */
export const llama3: Format = {
  name: "llama3",
  bos: [control("<|begin_of_text|>")],
  message: (message) => ({
    header: header(message.role),
    output: [text(Messages.text(message)), control("<|eot_id|>")]
  }),
  suffix: header,
  stops: ["<|eot_id|>"],
  parsing: { _tag: "plain" },
  extends: true,
  disablesThinking: false,
  tools: () =>
    new Refusal("Llama 3 calls tools in bare JSON, which looks the same as an answer in JSON; use another model")
}
