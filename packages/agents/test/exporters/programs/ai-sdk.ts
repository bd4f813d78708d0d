import { OpenTelemetry } from "@ai-sdk/otel"
import { context } from "@opentelemetry/api"
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks"
import { OTLPTraceExporter as JsonExporter } from "@opentelemetry/exporter-trace-otlp-http"
import { OTLPTraceExporter as ProtobufExporter } from "@opentelemetry/exporter-trace-otlp-proto"
import { BatchSpanProcessor, NodeTracerProvider, type SpanExporter } from "@opentelemetry/sdk-trace-node"
import { generateText, isStepCount, tool } from "ai"
import * as six from "ai-6"
import { MockLanguageModelV3 } from "ai-6/test"
import { MockLanguageModelV4 } from "ai/test"
import { z } from "zod"
import { answer, type Conversation, type Log, question, system } from "./shared.js"

const usage = {
  inputTokens: { total: 10, noCache: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 3, text: 3, reasoning: undefined }
}

const content = (one: Conversation, call: number) =>
  call === 0
    ? {
      content: [{
        type: "tool-call" as const,
        toolCallId: `call-${one.city}`,
        toolName: "weather",
        input: JSON.stringify({ city: one.city })
      }],
      finishReason: { unified: "tool-calls" as const, raw: "tool_calls" },
      usage,
      warnings: []
    }
    : {
      content: [{ type: "text" as const, text: answer(one) }],
      finishReason: { unified: "stop" as const, raw: "stop" },
      usage,
      warnings: []
    }

const weather = { description: "The weather in a city", inputSchema: z.object({ city: z.string() }) }

const providerOf = (exporter: SpanExporter) => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  return new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] })
}

const logSix = (exporter: (url: string) => SpanExporter): Log => async (url, conversations) => {
  const provider = providerOf(exporter(url))
  for (const one of conversations) {
    let call = 0
    await six.generateText({
      model: new MockLanguageModelV3({ modelId: "mock-6", doGenerate: async () => content(one, call++) }),
      system,
      prompt: question(one),
      stopWhen: six.stepCountIs(3),
      tools: { weather: six.tool({ ...weather, execute: async () => ({ degrees: one.degrees }) }) },
      experimental_telemetry: {
        isEnabled: true,
        functionId: "support",
        metadata: { sessionId: one.session },
        tracer: provider.getTracer("ai")
      }
    })
  }
  await provider.shutdown()
}

export const sixJson = logSix((url) => new JsonExporter({ url: `${url}/v1/traces` }))
export const sixProtobuf = logSix((url) => new ProtobufExporter({ url: `${url}/v1/traces` }))

export const seven: Log = async (url, conversations) => {
  const provider = providerOf(new JsonExporter({ url: `${url}/v1/traces` }))
  for (const one of conversations) {
    let call = 0
    await generateText({
      model: new MockLanguageModelV4({ modelId: "mock-7", doGenerate: async () => content(one, call++) }),
      instructions: system,
      prompt: question(one),
      stopWhen: isStepCount(3),
      tools: { weather: tool({ ...weather, execute: async () => ({ degrees: one.degrees }) }) },
      telemetry: { functionId: "support", integrations: [new OpenTelemetry({ tracer: provider.getTracer("ai") })] }
    })
  }
  await provider.shutdown()
}
