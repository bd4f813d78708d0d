import { flush, initLogger, wrapOpenAI } from "braintrust"
import OpenAI from "openai"
import { beginning, history, type Log, question } from "./shared.js"

export const log: Log = async (url, conversations) => {
  const logger = initLogger({ projectName: "agents", apiKey: "k", appUrl: url, setCurrent: false })
  const openai = wrapOpenAI(new OpenAI({ apiKey: "k", baseURL: `${url}/v1` }))
  for (const one of conversations) {
    await logger.traced(async (span) => {
      span.log({ input: question(one), metadata: { session_id: one.session } })
      await openai.chat.completions.create({ model: "gpt-4o", messages: beginning(one) })
      await openai.chat.completions.create({ model: "gpt-4o", messages: history(one) })
      span.log({ output: "done", scores: { brief: 0.5 } })
      logger.logFeedback({ id: span.id, scores: { thumb: one.thumb }, comment: "seen", source: "external" })
    })
  }
  await flush()
}
