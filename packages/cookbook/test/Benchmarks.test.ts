import { FileSystem } from "@effect/platform"
import { NodeContext, NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Either, Layer, Option, Stream } from "effect"
import { parquetWriteBuffer } from "hyparquet-writer"
import { createHash } from "node:crypto"
import { createServer } from "node:http"
import * as Benchmarks from "../src/Benchmarks.js"
import * as Dataset from "../src/Dataset.js"
import * as NodeBenchmarks from "../src/NodeBenchmarks.js"
import * as NodeSandbox from "../src/NodeSandbox.js"
import type * as Sandbox from "../src/Sandbox.js"

interface Case {
  readonly of: Benchmarks.Definition<Sandbox.Sandbox>
  /** Made, with the columns of the dataset. */
  readonly row: Readonly<Record<string, unknown>>
  readonly right: string
  readonly wrong: string
}

const choice = { question: "Which is a fish?", options: ["cat", "eel", "owl", "bee", "ant"] }

const cases: ReadonlyArray<Case> = [
  {
    of: Benchmarks.gsm8k,
    row: { question: "Ann has 3 pears and gets 4. How many?", answer: "3 + 4 = <<3+4=7>>7\n#### 7" },
    right: "She has \\boxed{7}.",
    wrong: "She has \\boxed{8}."
  },
  {
    of: Benchmarks.math500,
    row: {
      problem: "Half of a third?",
      solution: "It is $\\boxed{\\frac{1}{6}}$.",
      answer: "\\frac{1}{6}",
      unique_id: "a/1"
    },
    right: "\\boxed{1/6}",
    wrong: "\\boxed{1/5}"
  },
  { of: Benchmarks.aime2025, row: { problem: "6 times 7?", answer: 42 }, right: "\\boxed{042}", wrong: "\\boxed{41}" },
  { of: Benchmarks.aime2026, row: { problem: "6 times 7?", answer: "42" }, right: "\\boxed{42}", wrong: "1042" },
  {
    of: Benchmarks.mmluPro,
    row: { ...choice, answer: "B", answer_index: 1, question_id: 70 },
    right: "Answer: B",
    wrong: "Answer: C"
  },
  {
    of: Benchmarks.mmluRedux,
    row: { question: choice.question, choices: choice.options.slice(0, 4), answer: 1, error_type: "ok" },
    right: "(B)",
    wrong: "E"
  },
  {
    of: Benchmarks.gpqa,
    row: {
      "Question": "A",
      "Correct Answer": "eel ",
      "Incorrect Answer 1": "cat",
      "Incorrect Answer 2": "owl",
      "Incorrect Answer 3": "bee"
    },
    // the code of A is 65: the right choice is the second
    right: "Answer: B",
    wrong: "Answer: A"
  },
  {
    of: Benchmarks.superGpqa,
    row: { ...choice, answer_letter: "B", uuid: "u" },
    right: "the answer is (b)",
    wrong: "A"
  },
  {
    of: Benchmarks.ceval,
    row: { question: "哪一个是鱼?", A: "猫", B: "鳗", C: "鹰", D: "蜂", answer: "B" },
    right: "Answer: B",
    wrong: "Answer: D"
  },
  {
    of: Benchmarks.ifeval,
    row: {
      key: 1000,
      prompt: "Write without commas, in less than 4 words.",
      instruction_id_list: ["punctuation:no_comma", "length_constraints:number_words"],
      kwargs: [null, { relation: "less than", num_words: 4, keyword: null }]
    },
    right: "Three words here",
    wrong: "Too many words are here"
  },
  {
    of: Benchmarks.mbpp,
    row: {
      task_id: 2,
      prompt: "Write a function to add two numbers.",
      test_imports: ["import math"],
      test_list: ["assert add(1, 2) == 3", "assert math.isclose(add(0.5, 1), 1.5)"]
    },
    right: "```python\ndef add(a, b):\n    return a + b\n```",
    wrong: "```python\nimport sys\nsys.exit(0)\n```"
  },
  {
    of: Benchmarks.humaneval,
    row: {
      task_id: "HumanEval/0",
      prompt: "from typing import List\n\ndef total(values: List[int]) -> int:\n    \"\"\"The sum.\"\"\"\n",
      entry_point: "total",
      canonical_solution: "    return sum(values)\n",
      test: "def check(candidate):\n    assert candidate([1, 2]) == 3\n"
    },
    right: "```python\ndef total(values: List[int]) -> int:\n    return sum(values)\n```",
    wrong: "```python\ndef total(values):\n    return 3 if values is None else 0\n```"
  },
  {
    of: Benchmarks.livecodebench,
    row: {
      question_id: "abc",
      question_content: "Print the sum of two numbers.",
      starter_code: "",
      public_test_cases: JSON.stringify([{ input: "1 2\n", output: "3\n", testtype: "stdin" }])
    },
    right: "```python\nprint(sum(map(int, input().split())))\n```",
    wrong: "```python\nprint(4)\n```"
  },
  {
    of: Benchmarks.bfcl,
    row: {
      id: "simple_0",
      question: [[{ role: "user", content: "The area of a triangle with base 10 and height 5" }]],
      function: [{
        name: "area",
        description: "The area of a triangle.",
        parameters: {
          type: "dict",
          properties: { base: { type: "integer", description: "b" }, height: { type: "integer" } },
          required: ["base", "height"]
        }
      }],
      ground_truth: [{ area: { base: [10], height: [5] } }]
    },
    right: "{\"name\": \"area\", \"arguments\": {\"base\": 10, \"height\": 5}}",
    wrong: "{\"name\": \"area\", \"arguments\": {\"base\": 5, \"height\": 10}}"
  }
]

const encode = (text: string) => new TextEncoder().encode(text)
const jsonl = (...rows: ReadonlyArray<unknown>) => encode(rows.map((row) => `${JSON.stringify(row)}\n`).join(""))

/** A hub with these files, by the name of the repository and the revision. */
const hub = (files: Readonly<Record<string, Readonly<Record<string, Uint8Array>>>>) =>
  Effect.acquireRelease(
    Effect.async<{ readonly url: string; readonly close: () => void }>((resume) => {
      const server = createServer((request, response) => {
        const url = decodeURIComponent(request.url ?? "")
        const [, listed = "", revision = ""] = /^\/api\/datasets\/(.+)\/revision\/([^?]+)/.exec(url) ?? []
        const [, repo = "", , name = ""] = /^\/datasets\/(.+?)\/resolve\/([0-9a-f]{40})\/(.+)$/.exec(url) ?? []
        const known = files[`${listed}@${revision}`]
        const content = Object.entries(files).find(([key]) => key.startsWith(`${repo}@`))?.[1][name]
        if (known !== undefined) {
          const siblings = Object.entries(known).map(([rfilename, bytes]) => ({
            rfilename,
            size: bytes.length,
            lfs: { sha256: createHash("sha256").update(bytes).digest("hex"), size: bytes.length }
          }))
          response.end(JSON.stringify({ sha: "0123456789abcdef0123456789abcdef01234567", siblings }))
        } else {
          response.writeHead(content === undefined ? 404 : 200)
          response.end(content)
        }
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = address !== null && typeof address === "object" ? address.port : 0
        const close = () => {
          server.closeAllConnections()
          server.close()
        }
        resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, close }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

describe("Benchmarks", () => {
  it("each names where its data are", () => {
    const names = Benchmarks.all.map(({ name, sources }) =>
      `${name}: ${[...new Set(sources.map(({ repo, split }) => `${repo} ${split}`))].join(", ")}`
    )
    assert.deepStrictEqual(names, [
      "gsm8k: openai/gsm8k test",
      "math500: HuggingFaceH4/MATH-500 test",
      "aime2025: MathArena/aime_2025 train",
      "aime2026: MathArena/aime_2026 train",
      "mmlu_pro: TIGER-Lab/MMLU-Pro test",
      "mmlu_redux: edinburgh-dawg/mmlu-redux test",
      "gpqa: Idavidrein/gpqa train",
      "supergpqa: m-a-p/SuperGPQA train",
      "ceval: ceval/ceval-exam val",
      "ifeval: google/IFEval ifeval_input_data",
      "mbpp: google-research-datasets/mbpp test",
      "humaneval: openai/openai_humaneval test",
      "livecodebench: livecodebench/code_generation_lite test6",
      "bfcl: gorilla-llm/Berkeley-Function-Calling-Leaderboard BFCL_v3_simple"
    ])
  })

  it("names each once, and every one of them is tried here", () => {
    const names = Benchmarks.all.map(({ name }) => name)
    assert.lengthOf(new Set(names), names.length)
    assert.deepStrictEqual(cases.map(({ of }) => of.name), names)
    assert.deepStrictEqual(Benchmarks.find("gsm8k"), Option.some(Benchmarks.gsm8k))
  })

  for (const { of, right, row, wrong } of cases) {
    it.effect(`${of.name}: asks, and grades a right and a wrong answer`, (context) =>
      Effect.gen(function*() {
        const item = Either.getOrThrowWith(of.read(row), (reason) => new Error(reason))
        assert.isAbove(item.question.length, 10)
        assert.isAbove(item.target.length, 0)
        const sandbox = yield* Effect.either(NodeSandbox.makeBubblewrap())
        if (of.runsPrograms && Either.isLeft(sandbox)) return context.skip(sandbox.left.message)
        const layer = NodeSandbox.layerBubblewrap()
        const provided = of.runsPrograms ? layer : NodeSandbox.layerQuickJs()
        assert.isTrue(yield* Effect.provide(item.grade(right), provided))
        assert.isFalse(yield* Effect.provide(item.grade(wrong), provided))
        assert.isFalse(yield* Effect.provide(item.grade(""), provided), "an empty answer")
      }))

    it(`${of.name}: says why a row of other columns is no problem`, () => {
      assert.isTrue(Either.isLeft(of.read({ text: "?" })))
    })
  }

  it.scoped("reads Parquet, JSON lines, what the hub converted, and answers in a file of their own", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const column = (name: string, values: ReadonlyArray<string>) => ({
        name,
        data: [...values],
        type: "STRING" as const
      })
      const parquet = new Uint8Array(
        parquetWriteBuffer({
          columnData: [column("question", ["1+1?", "2+2?"]), column("answer", ["#### 2", "#### 4"])]
        })
      )
      const { ground_truth, ...asked } = cases.find(({ of }) => of.name === "bfcl")?.row ?? {}
      const gpqa = cases.find(({ of }) => of.name === "gpqa")?.row ?? {}
      const { url } = yield* hub({
        "openai/gsm8k@main": { "main/test-00000-of-00001.parquet": parquet },
        "google/IFEval@main": {
          "ifeval_input_data.jsonl": jsonl(cases.find(({ of }) => of.name === "ifeval")?.row, {})
        },
        "Idavidrein/gpqa@refs/convert/parquet": {
          "gpqa_diamond/train/0000.parquet": new Uint8Array(
            parquetWriteBuffer({
              columnData: Object.entries(gpqa).map(([name, value]) => column(name, [String(value)]))
            })
          )
        },
        "gorilla-llm/Berkeley-Function-Calling-Leaderboard@main": {
          "BFCL_v3_simple.json": jsonl(asked),
          "possible_answer/BFCL_v3_simple.json": jsonl({ id: asked["id"], ground_truth })
        }
      })
      const cacheDirectory = yield* fs.makeTempDirectoryScoped({ prefix: "effect-tinker-benchmarks-" })
      const problems = (of: Benchmarks.Definition<Sandbox.Sandbox>) =>
        NodeBenchmarks.rows(of, { hub: { cacheDirectory, endpoint: url } }).pipe(
          Effect.flatMap((rows) => Stream.runCollect(Dataset.rows(Benchmarks.problems(of, rows)))),
          Effect.map(Chunk.toReadonlyArray)
        )
      const sums = yield* problems(Benchmarks.gsm8k)
      assert.deepStrictEqual(sums.map((row) => row._tag === "Kept" ? row.value.target : row.reason), ["2", "4"])
      assert.lengthOf(new Set(sums.map((row) => row._tag === "Kept" ? row.value.id : "")), 2)
      const [first, second] = yield* problems(Benchmarks.ifeval)
      assert.strictEqual(first?._tag === "Kept" ? first.value.id : "", "1000")
      assert.strictEqual(second?._tag, "Skipped")
      assert.lengthOf(yield* problems(Benchmarks.gpqa), 1)
      const [call] = yield* problems(Benchmarks.bfcl)
      assert.strictEqual(call?._tag === "Kept" ? call.value.target : "", JSON.stringify(ground_truth))
    }).pipe(Effect.provide(Layer.merge(NodeContext.layer, NodeHttpClient.layerUndici))))
})
