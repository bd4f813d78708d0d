/**
 * Benchmarks by name: where their problems are, how they are asked, and how answers are graded.
 *
 * Problems are asked in our words, without examples; answers are graded by rules that were held against those of the official
 * cookbook, `lm-eval` and `bfcl-eval`. Scores compare with each other, and with published ones only where those were asked
 * the same way.
 *
 * Nothing of the datasets is here: `NodeBenchmarks` reads them from the Hugging Face hub when they are run.
 *
 * @since 0.2.0
 */
import * as Message from "@effect-tinker/tokenizer/Message"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type * as Benchmark from "./Benchmark.js"
import * as ChoiceAnswer from "./ChoiceAnswer.js"
import * as Dataset from "./Dataset.js"
import * as Environment from "./Environment.js"
import * as FunctionCall from "./FunctionCall.js"
import * as Instructions from "./Instructions.js"
import type * as Language from "./Language.js"
import * as MathAnswer from "./MathAnswer.js"
import * as PythonAnswer from "./PythonAnswer.js"
import type * as Sandbox from "./Sandbox.js"

// =============================================================================
// models
// =============================================================================

/**
 * A split of a dataset on the hub.
 *
 * @since 0.2.0
 * @category models
 */
export interface Source {
  readonly repo: string
  readonly revision?: string | undefined
  readonly config?: string | undefined
  readonly split: string
}

/**
 * Why an answer could not be graded, which says nothing about the answer.
 *
 * @since 0.2.0
 * @category errors
 */
export type GradingFailed =
  | Instructions.UnknownInstruction
  | Language.LanguageUnavailable
  | Sandbox.SandboxUnavailable

/**
 * A problem as it is asked, and how its answers are graded.
 *
 * @since 0.2.0
 * @category models
 */
export interface Item<out R = never> {
  /** The name of the problem in its dataset, where it has one. */
  readonly id?: string | undefined
  readonly question: string
  /** The right answer, for the record. */
  readonly target: string
  readonly grade: (answer: string) => Effect.Effect<boolean, GradingFailed, R>
}

/**
 * How answers are drawn unless something else is asked for.
 *
 * @since 0.2.0
 * @category models
 */
export interface Sampling {
  readonly maxTokens: number
  readonly temperature: number
}

/**
 * A benchmark.
 *
 * @since 0.2.0
 * @category models
 */
export interface Definition<out R = never> {
  readonly name: string
  /** A few words for people. */
  readonly about: string
  /** The licence of its data, by the page of the dataset. */
  readonly license: string
  /** Read one after another. */
  readonly sources: ReadonlyArray<Source>
  /** The rows of this one, found by `id`, add their columns to those of the sources. */
  readonly answers?: Source | undefined
  readonly sampling: Sampling
  /** Whether answers are programs, which run in the `Sandbox`. */
  readonly runsPrograms: boolean
  /** A row as a problem; on the left the reason why it is none. */
  readonly read: (row: unknown) => Either.Either<Item<R>, string>
}

// =============================================================================
// grading
// =============================================================================

const immediately = (isRight: (answer: string) => boolean) => (answer: string): Effect.Effect<boolean> =>
  Effect.sync(() => isRight(answer))

/** A definition from a schema of its rows. */
const define = <A, I, R = never>(
  { item, row, ...options }: Omit<Definition<R>, "read" | "runsPrograms"> & {
    readonly row: Schema.Schema<A, I>
    readonly runsPrograms?: boolean
    readonly item: (row: A) => Item<R> | string
  }
): Definition<R> => {
  const decode = Schema.decodeUnknownEither(row)
  return {
    runsPrograms: false,
    ...options,
    read: (given) =>
      Either.flatMap(Either.mapLeft(decode(given), ParseResult.TreeFormatter.formatErrorSync), (values) => {
        const found = item(values)
        return typeof found === "string" ? Either.left(found) : Either.right(found)
      })
  }
}

const inBox = "Put the final answer in \\boxed{}."
const letterLast = "Think step by step, and end with the line \"Answer: \" followed by the letter of the right choice."
const programOnly = "Answer with one block of Python code, marked ```python, that has everything it needs."

const choices = (
  question: string,
  options: ReadonlyArray<string>,
  right: string,
  id?: string
): Item | string => {
  const letter = right.trim().toUpperCase()
  const known = options.map((_, i) => ChoiceAnswer.letter(i))
  if (!known.includes(letter)) return `its answer is ${JSON.stringify(right)}, of ${options.length} choices`
  return {
    id,
    question: `${question}\n\n${ChoiceAnswer.list(options)}\n\n${letterLast}`,
    target: letter,
    grade: immediately((answer) => ChoiceAnswer.find(answer, options.length) === letter)
  }
}

/** Parquet files that the hub makes of a dataset whose own files are not read here. */
const converted = "refs/convert/parquet"

const short: Sampling = { maxTokens: 2048, temperature: 0 }
const long: Sampling = { maxTokens: 8192, temperature: 0 }
const contestLength: Sampling = { maxTokens: 32_768, temperature: 0.6 }

// =============================================================================
// mathematics
// =============================================================================

/**
 * GSM8K: 1,319 word problems of elementary school.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const gsm8k: Definition = define({
  name: "gsm8k",
  about: "word problems of elementary school",
  license: "MIT",
  sources: [{ repo: "openai/gsm8k", config: "main", split: "test" }],
  sampling: short,
  row: Schema.Struct({ question: Schema.String, answer: Schema.String }),
  item: ({ answer, question }) => {
    const target = answer.split("####").at(-1)?.trim() ?? ""
    return {
      question: `${question}\n\n${inBox}`,
      target,
      grade: immediately((given) => MathAnswer.isNumber(given, target))
    }
  }
})

/**
 * MATH-500: problems of mathematics competitions.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const math500: Definition = define({
  name: "math500",
  about: "problems of mathematics competitions",
  license: "MIT",
  sources: [{ repo: "HuggingFaceH4/MATH-500", split: "test" }],
  sampling: long,
  row: Schema.Struct({
    problem: Schema.String,
    solution: Schema.String,
    unique_id: Schema.optional(Schema.String)
  }),
  item: ({ problem, solution, unique_id }) =>
    Option.match(MathAnswer.lastBoxed(solution), {
      onNone: () => "its solution has no boxed answer",
      onSome: (target) => ({
        id: unique_id,
        question: `${problem}\n\n${inBox}`,
        target,
        grade: immediately((given) => MathAnswer.isBoxed(given, target))
      })
    })
})

const aime = (year: number): Definition =>
  define({
    name: `aime${year}`,
    about: `the American Invitational Mathematics Examination of ${year}`,
    license: "CC BY-NC-SA 4.0",
    sources: [{ repo: `MathArena/aime_${year}`, split: "train" }],
    sampling: contestLength,
    row: Schema.Struct({ problem: Schema.String, answer: Schema.Union(Schema.Number, Schema.NumberFromString) }),
    item: ({ answer, problem }) => ({
      question: `${problem}\n\nThe answer is an integer from 0 to 999. ${inBox}`,
      target: String(answer),
      grade: immediately((given) => MathAnswer.isContestInteger(given, answer))
    })
  })

/**
 * AIME 2025: 30 problems whose answers are integers.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const aime2025: Definition = aime(2025)

/**
 * AIME 2026: 30 problems whose answers are integers.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const aime2026: Definition = aime(2026)

// =============================================================================
// knowledge
// =============================================================================

/**
 * MMLU-Pro: questions of 14 subjects with up to ten choices.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const mmluPro: Definition = define({
  name: "mmlu_pro",
  about: "questions of 14 subjects, up to ten choices",
  license: "MIT",
  sources: [{ repo: "TIGER-Lab/MMLU-Pro", split: "test" }],
  sampling: short,
  row: Schema.Struct({
    question: Schema.String,
    options: Schema.Array(Schema.String),
    answer_index: Schema.Int,
    question_id: Schema.optional(Schema.Union(Schema.Number, Schema.String))
  }),
  item: ({ answer_index, options, question, question_id }) =>
    choices(
      question,
      options,
      ChoiceAnswer.letter(answer_index),
      question_id === undefined ? undefined : String(question_id)
    )
})

const reduxSubjects = (
  "anatomy astronomy business_ethics clinical_knowledge college_chemistry college_computer_science college_mathematics " +
  "college_medicine college_physics conceptual_physics econometrics electrical_engineering formal_logic global_facts " +
  "high_school_chemistry high_school_geography high_school_macroeconomics high_school_mathematics high_school_physics " +
  "high_school_statistics high_school_us_history human_aging logical_fallacies machine_learning miscellaneous philosophy " +
  "professional_accounting professional_law public_relations virology"
).split(" ")

/**
 * MMLU-Redux: questions of MMLU that were checked again; those found wrong are left out.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const mmluRedux: Definition = define({
  name: "mmlu_redux",
  about: "questions of MMLU that were checked again, 30 subjects",
  license: "CC BY 4.0",
  sources: reduxSubjects.map((config) => ({
    repo: "edinburgh-dawg/mmlu-redux",
    revision: converted,
    config,
    split: "test"
  })),
  sampling: short,
  row: Schema.Struct({
    question: Schema.String,
    choices: Schema.Array(Schema.String),
    answer: Schema.Int,
    error_type: Schema.optional(Schema.String)
  }),
  item: ({ answer, choices: options, error_type = "ok", question }) =>
    error_type === "ok"
      ? choices(question, options, ChoiceAnswer.letter(answer))
      : `the question is marked as ${error_type}`
})

/**
 * GPQA Diamond: 198 questions of graduate level in the sciences. The dataset asks for an account that accepted its terms.
 *
 * The right choice is the first in the data: here its place is decided by the question.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const gpqa: Definition = define({
  name: "gpqa",
  about: "questions of graduate level in the sciences",
  license: "CC BY 4.0, by request",
  sources: [{ repo: "Idavidrein/gpqa", revision: converted, config: "gpqa_diamond", split: "train" }],
  sampling: long,
  row: Schema.Struct({
    "Question": Schema.String,
    "Correct Answer": Schema.String,
    "Incorrect Answer 1": Schema.String,
    "Incorrect Answer 2": Schema.String,
    "Incorrect Answer 3": Schema.String
  }),
  item: (row) => {
    const question = row.Question
    const options = [row["Incorrect Answer 1"], row["Incorrect Answer 2"], row["Incorrect Answer 3"]]
    const at = Array.from(question).reduce((sum, one) => sum + (one.codePointAt(0) ?? 0), 0) % 4
    options.splice(at, 0, row["Correct Answer"])
    return choices(question, options.map((one) => one.trim()), ChoiceAnswer.letter(at))
  }
})

/**
 * SuperGPQA: questions of graduate level in 285 disciplines, up to ten choices.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const superGpqa: Definition = define({
  name: "supergpqa",
  about: "questions of graduate level in 285 disciplines",
  license: "ODC-BY 1.0",
  sources: [{ repo: "m-a-p/SuperGPQA", revision: converted, config: "default", split: "train" }],
  sampling: long,
  row: Schema.Struct({
    question: Schema.String,
    options: Schema.Array(Schema.String),
    answer_letter: Schema.String,
    uuid: Schema.optional(Schema.String)
  }),
  item: ({ answer_letter, options, question, uuid }) => choices(question, options, answer_letter, uuid)
})

const cevalSubjects = (
  "computer_network operating_system computer_architecture college_programming college_physics college_chemistry " +
  "advanced_mathematics probability_and_statistics discrete_mathematics electrical_engineer metrology_engineer " +
  "high_school_mathematics high_school_physics high_school_chemistry high_school_biology middle_school_mathematics " +
  "middle_school_biology middle_school_physics middle_school_chemistry veterinary_medicine college_economics " +
  "business_administration marxism mao_zedong_thought education_science teacher_qualification high_school_politics " +
  "high_school_geography middle_school_politics middle_school_geography modern_chinese_history " +
  "ideological_and_moral_cultivation logic law chinese_language_and_literature art_studies professional_tour_guide " +
  "legal_professional high_school_chinese high_school_history middle_school_history civil_servant sports_science " +
  "plant_protection basic_medicine clinical_medicine urban_and_rural_planner accountant fire_engineer " +
  "environmental_impact_assessment_engineer tax_accountant physician"
).split(" ")

/**
 * C-Eval: questions of Chinese examinations in 52 subjects. Those of `val`, whose answers are public.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const ceval: Definition = define({
  name: "ceval",
  about: "questions of Chinese examinations, 52 subjects",
  license: "CC BY-NC-SA 4.0",
  sources: cevalSubjects.map((config) => ({ repo: "ceval/ceval-exam", config, split: "val" })),
  sampling: short,
  row: Schema.Struct({
    question: Schema.String,
    A: Schema.String,
    B: Schema.String,
    C: Schema.String,
    D: Schema.String,
    answer: Schema.String
  }),
  item: ({ A, B, C, D, answer, question }) => choices(question, [A, B, C, D], answer)
})

// =============================================================================
// instructions
// =============================================================================

/**
 * IFEval: 541 prompts with instructions that rules can check. An answer must follow all of its prompt's.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const ifeval: Definition = define({
  name: "ifeval",
  about: "instructions that rules can check",
  license: "Apache 2.0",
  sources: [{ repo: "google/IFEval", split: "ifeval_input_data" }],
  sampling: short,
  row: Schema.Struct({
    key: Schema.optional(Schema.Union(Schema.Number, Schema.String)),
    prompt: Schema.String,
    instruction_id_list: Schema.Array(Schema.String),
    kwargs: Schema.Array(Schema.NullOr(Schema.Record({ key: Schema.String, value: Schema.Unknown })))
  }),
  item: ({ instruction_id_list, key, kwargs, prompt }) => {
    const instructions = instruction_id_list.map((kind, i) => ({ kind, arguments: kwargs[i] ?? {} }))
    return {
      id: key === undefined ? undefined : String(key),
      question: prompt,
      target: instruction_id_list.join(", "),
      grade: (answer) => Effect.map(Instructions.follows(answer, instructions), (followed) => !followed.includes(false))
    }
  }
})

// =============================================================================
// programs
// =============================================================================

/**
 * MBPP, the part checked by people: 257 small functions in Python.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const mbpp: Definition<Sandbox.Sandbox> = define({
  name: "mbpp",
  about: "small functions in Python",
  license: "CC BY 4.0",
  sources: [{ repo: "google-research-datasets/mbpp", config: "sanitized", split: "test" }],
  sampling: short,
  runsPrograms: true,
  row: Schema.Struct({
    task_id: Schema.Number,
    prompt: Schema.String,
    test_list: Schema.NonEmptyArray(Schema.String),
    test_imports: Schema.optional(Schema.Array(Schema.String))
  }),
  item: ({ prompt, task_id, test_imports = [], test_list }) => ({
    id: String(task_id),
    question: `${prompt}\n\nYour code must pass, among others, this test: ${test_list[0]}\n\n${programOnly}`,
    target: test_list.join("\n"),
    grade: (answer) => PythonAnswer.passes(PythonAnswer.find(answer), [...test_imports, ...test_list].join("\n"))
  })
})

/**
 * HumanEval: 164 functions in Python, given by their beginning.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const humaneval: Definition<Sandbox.Sandbox> = define({
  name: "humaneval",
  about: "functions in Python, given by their beginning",
  license: "MIT",
  sources: [{ repo: "openai/openai_humaneval", split: "test" }],
  sampling: short,
  runsPrograms: true,
  row: Schema.Struct({
    task_id: Schema.String,
    prompt: Schema.String,
    test: Schema.String,
    entry_point: Schema.String.pipe(Schema.pattern(/^\w+$/))
  }),
  item: ({ entry_point, prompt, task_id, test }) => ({
    id: task_id,
    question: `Complete this function:\n\n\`\`\`python\n${prompt}\n\`\`\`\n\n${programOnly}`,
    target: entry_point,
    grade: (answer) => {
      const code = PythonAnswer.find(answer)
      // some answer with the rest alone
      const whole = code.includes(`def ${entry_point}`) ? `${prompt}    pass\n\n${code}` : `${prompt}${code}`
      return PythonAnswer.passes(whole, `${test}\n\ncheck(${entry_point})`)
    }
  })
})

const InputTests = Schema.parseJson(Schema.Array(Schema.Struct({ input: Schema.String, output: Schema.String })))

/**
 * LiveCodeBench, its newest part: problems of programming contests, by their public tests of what a program prints.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const livecodebench: Definition<Sandbox.Sandbox> = define({
  name: "livecodebench",
  about: "problems of programming contests, by their public tests",
  license: "CC BY 4.0",
  sources: [{ repo: "livecodebench/code_generation_lite", split: "test6" }],
  sampling: long,
  runsPrograms: true,
  row: Schema.Struct({
    question_id: Schema.optional(Schema.String),
    question_content: Schema.String,
    starter_code: Schema.optional(Schema.String),
    public_test_cases: InputTests
  }),
  item: ({ public_test_cases, question_content, question_id, starter_code = "" }) =>
    public_test_cases.length === 0 ? "it has no tests" : starter_code !== ""
      ? "it asks for a function, not for a program that reads and prints"
      : {
        id: question_id,
        question: `${question_content}\n\nRead from standard input and print to standard output. ${programOnly}`,
        target: public_test_cases[0]?.output ?? "",
        grade: (answer) => PythonAnswer.passesInputs(PythonAnswer.find(answer), public_test_cases)
      }
})

// =============================================================================
// function calls
// =============================================================================

const Signature = Schema.Struct({
  name: Schema.String,
  parameters: Schema.Struct({
    properties: Schema.Record({
      key: Schema.String,
      value: Schema.Struct(
        {
          type: Schema.String,
          items: Schema.optional(Schema.Struct(
            { type: Schema.optional(Schema.String) },
            Schema.Record({
              key: Schema.String,
              value: Schema.Unknown
            })
          ))
        },
        Schema.Record({ key: Schema.String, value: Schema.Unknown })
      )
    }),
    required: Schema.optional(Schema.Array(Schema.String))
  }, Schema.Record({ key: Schema.String, value: Schema.Unknown }))
}, Schema.Record({ key: Schema.String, value: Schema.Unknown }))

/**
 * The Berkeley Function Calling Leaderboard, version 3: questions that one call of one function answers.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const bfcl: Definition = define({
  name: "bfcl",
  about: "questions that one function call answers",
  license: "Apache 2.0",
  sources: [{ repo: "gorilla-llm/Berkeley-Function-Calling-Leaderboard", split: "BFCL_v3_simple" }],
  answers: {
    repo: "gorilla-llm/Berkeley-Function-Calling-Leaderboard",
    config: "possible_answer",
    split: "BFCL_v3_simple"
  },
  sampling: short,
  row: Schema.Struct({
    id: Schema.String,
    question: Schema.Array(Schema.Array(Schema.Struct({ content: Schema.String }))),
    function: Schema.Array(Signature),
    ground_truth: Schema.Array(Schema.Record({
      key: Schema.String,
      value: Schema.Record({ key: Schema.String, value: Schema.Array(Schema.Unknown) })
    }))
  }),
  item: ({ function: signatures, ground_truth, id, question }) => ({
    id,
    question: [
      ...question.flat().map(({ content }) => content),
      `You can call these functions:\n${JSON.stringify(signatures, null, 2)}`,
      "Answer with the call alone, as JSON: {\"name\": …, \"arguments\": {…}}; with a list of them where several are needed."
    ].join("\n\n"),
    target: JSON.stringify(ground_truth),
    grade: immediately((answer) =>
      Option.exists(FunctionCall.find(answer), (calls) => FunctionCall.areCalls(calls, signatures, ground_truth))
    )
  })
})

// =============================================================================
// running
// =============================================================================

/**
 * Every benchmark.
 *
 * @since 0.2.0
 * @category benchmarks
 */
export const all: ReadonlyArray<Definition<Sandbox.Sandbox>> = [
  gsm8k,
  math500,
  aime2025,
  aime2026,
  mmluPro,
  mmluRedux,
  gpqa,
  superGpqa,
  ceval,
  ifeval,
  mbpp,
  humaneval,
  livecodebench,
  bfcl
]

/**
 * The benchmark of a name.
 *
 * @since 0.2.0
 * @category combinators
 */
export const find = (name: string): Option.Option<Definition<Sandbox.Sandbox>> =>
  Option.fromNullable(all.find((one) => one.name === name))

/**
 * Settings with which answers are drawn: one that is cut off or cannot be read is wrong, and nothing worse.
 *
 * @since 0.2.0
 * @category constants
 */
export const settings = { overflowReward: 0, parseErrors: { maxConsecutive: 0, reward: 0 } } as const

/**
 * Rows of a benchmark's dataset as problems for `Benchmark.run`. Rows that are no problems are skipped, with the reason.
 *
 * @since 0.2.0
 * @category combinators
 */
export const problems = <R, ED, RD>(
  definition: Definition<R>,
  rows: Dataset.Dataset<unknown, ED, RD>
): Dataset.Dataset<Benchmark.Problem<GradingFailed | RenderFailed | ChatTemplateFailed, R>, ED, RD> =>
  Dataset.mapOrigin(rows, (row, origin) => ({ row, origin })).pipe(
    Dataset.mapEffect(({ origin, row }) =>
      Either.match(definition.read(row), {
        onLeft: (detail) => Effect.fail(new Dataset.Skip({ reason: "filtered", detail })),
        onRight: ({ grade, id, question, target }) =>
          Effect.succeed({
            id: id ?? `${origin.source.split(/[\\/]/).slice(-2).join("/")}#${origin.row}`,
            input: question,
            target,
            problem: Environment.problem({ question: [Message.user(question)], check: (answer) => grade(answer) })
          })
      })
    )
  )
