/*
 * The engine's costly loops in machine code: for x64 processors with AVX2 and FMA, and for arm64, where every processor has
 * what is needed. WebAssembly has vectors of four floats, x64 has eight; arm64 has four as well, but twice the registers. A
 * product is two to three times as fast. Everything else stays in WebAssembly, over the same memory, and so does all of it
 * where this cannot be loaded.
 *
 * Vectors are those of the compiler, so that one source serves all processors, and every operation is one of IEEE 754, so
 * that all of them give the same bits. It needs no C library, so that one file serves every Linux. `npm run native` builds
 * all files.
 */
#include <node_api.h>

/* Vectors that may lie anywhere, as those of typed arrays do. */
typedef float Floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef unsigned Words __attribute__((vector_size(32), aligned(4), may_alias));
typedef unsigned short Shorts __attribute__((vector_size(16), aligned(2), may_alias));
typedef signed char Bytes8 __attribute__((vector_size(8), aligned(1), may_alias));
typedef _Float16 Halves __attribute__((vector_size(16), aligned(2), may_alias));
typedef float Floats4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double Doubles4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef long long Masks4 __attribute__((vector_size(32), aligned(8), may_alias));

/* Positions in memories; `long` has 32 bits on Windows. */
typedef long long Position;

#ifdef __x86_64__
#define VECTORS __attribute__((target("avx2,fma,f16c")))
#else
#define VECTORS
#endif
#define INLINE static inline __attribute__((always_inline)) VECTORS
#define UNROLL _Pragma("clang loop unroll(full)")

/* a * b + c with one rounding */
#define FUSED(a, b, c) __builtin_elementwise_fma(a, b, c)

INLINE Floats load(const float *from) { return *(const Floats *)from; }
INLINE void store(float *to, Floats values) { *(Floats *)to = values; }
INLINE Floats all(float value) { return (Floats){ value, value, value, value, value, value, value, value }; }

/* ------------------------------------------------------------------------------------------------------------ products */

typedef struct {
  const float *a;
  Position aRow, aColumn;
  /* panels of eight columns, `panel` floats apart */
  const float *b;
  Position panel;
  float *c;
  Position cRow;
  Position m, n, k;
  int adds;
} Product;

/*
 * A tile of C whose sums stay in registers. Every element is summed from the first to the last term with one rounding
 * each, so that it has the same bits in whichever tile it falls.
 */
INLINE void tile(const Product *p, int rows, int panels, const float *a, const float *b, float *c) {
  Floats sums[6][8], right[8];
  const Position aRow = p->aRow, aColumn = p->aColumn, panel = p->panel, cRow = p->cRow;
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < panels; j++)
      sums[i][j] = p->adds ? load(c + i * cRow + 8 * j) : all(0);
  for (Position term = 0; term < p->k; term++, a += aColumn, b += 8) {
    UNROLL for (int j = 0; j < panels; j++) right[j] = load(b + j * panel);
    UNROLL for (int i = 0; i < rows; i++) {
      const Floats left = all(a[i * aRow]);
      UNROLL for (int j = 0; j < panels; j++) sums[i][j] = FUSED(left, right[j], sums[i][j]);
    }
  }
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < panels; j++) store(c + i * cRow + 8 * j, sums[i][j]);
}

/* All rows, by some panels: six rows by two panels are twelve sums, as many as the registers hold beside the operands. */
INLINE void down(const Product *p, int panels, const float *b, float *c) {
  const float *a = p->a;
  Position rows = p->m;
  for (; rows >= 6; rows -= 6, a += 6 * p->aRow, c += 6 * p->cRow) tile(p, 6, panels, a, b, c);
  switch (rows) {
    case 5: tile(p, 5, panels, a, b, c); break;
    case 4: tile(p, 4, panels, a, b, c); break;
    case 3: tile(p, 3, panels, a, b, c); break;
    case 2: tile(p, 2, panels, a, b, c); break;
    case 1: tile(p, 1, panels, a, b, c); break;
  }
}

static VECTORS void multiply(const Product *p) {
  const float *b = p->b;
  float *c = p->c;
  Position columns = p->n;
  /* one row or two, as in sampling, are too few to keep the processor busy with two panels */
  if (p->m == 1) {
    for (; columns >= 64; columns -= 64, b += 8 * p->panel, c += 64) tile(p, 1, 8, p->a, b, c);
  } else if (p->m == 2) {
    for (; columns >= 32; columns -= 32, b += 4 * p->panel, c += 32) tile(p, 2, 4, p->a, b, c);
  }
  for (; columns >= 16; columns -= 16, b += 2 * p->panel, c += 16) down(p, 2, b, c);
  if (columns > 0) down(p, 1, b, c);
}

/* Terms at a time: what a tile reads of A and B fits into the innermost cache. Sums in memory lose no bits. */
enum { DEPTH = 256 };

/* What JavaScript writes before a call; passing eleven numbers one by one would take longer than a small product. */
typedef struct {
  float *memory;
  Position length;
  int a, aRow, aColumn, b, panel, c, cRow, m, n, k, adds;
} Frame;

/* Whether positions from `first` to `first + extent` lie within the memory, as WebAssembly would insist on. */
static int within(const Frame *frame, Position first, Position extent) {
  return first >= 0 && extent >= 0 && first + extent <= frame->length;
}

static int isValid(const Frame *f) {
  const Position m = f->m, n = f->n, k = f->k;
  return m > 0 && n > 0 && n % 8 == 0 && k > 0 && f->aRow >= 0 && f->aColumn >= 0 && f->panel >= 0 && f->cRow >= 0 &&
         within(f, f->a, (m - 1) * f->aRow + (k - 1) * f->aColumn + 1) &&
         within(f, f->b, (n / 8 - 1) * f->panel + k * 8) && within(f, f->c, (m - 1) * f->cRow + n);
}

static napi_value gemm(napi_env env, napi_callback_info info) {
  void *data;
  if (napi_get_cb_info(env, info, 0, 0, 0, &data) != napi_ok) return 0;
  const Frame *f = data;
  if (!isValid(f)) {
    napi_throw_range_error(env, 0, "a product outside of the memory");
    return 0;
  }
  Product p = {
    .a = f->memory + f->a, .aRow = f->aRow, .aColumn = f->aColumn,
    .b = f->memory + f->b, .panel = f->panel,
    .c = f->memory + f->c, .cRow = f->cRow,
    .m = f->m, .n = f->n, .adds = f->adds
  };
  for (Position left = f->k; left > 0; left -= DEPTH) {
    p.k = left < DEPTH ? left : DEPTH;
    multiply(&p);
    p.a += DEPTH * p.aColumn;
    p.b += DEPTH * 8;
    p.adds = 1;
  }
  return 0;
}

/* ------------------------------------------------------------------------------------- weights outside of the memory */

/* How weights are stored: as they are in their file, or in eight bits with a scale for each output. */
enum { FLOAT, BRAIN, HALF, BYTE };

/* Eight weights as floats, from position `at`; `scale` is that of their outputs, if they are stored in eight bits. */
INLINE Floats widened(const void *weights, Position at, int format, Floats scale) {
  if (format == BYTE) return __builtin_convertvector(*(const Bytes8 *)((const signed char *)weights + at), Floats) * scale;
  if (format == FLOAT) return load((const float *)weights + at);
  const unsigned short *bits = (const unsigned short *)weights + at;
  if (format == HALF) return __builtin_convertvector(*(const Halves *)bits, Floats);
  return (Floats)(__builtin_convertvector(*(const Shorts *)bits, Words) << 16);
}

/* A product with weights in panels of eight outputs; all outputs of one input lie beside each other. */
typedef struct {
  const float *a;
  Position aRow;
  const void *weights;
  /* of the outputs from the first on, if weights are stored in eight bits */
  const float *scales;
  /* position of the first panel */
  Position first;
  Position inputs;
  float *c;
  Position cRow;
  Position m, n;
  int adds;
} Outside;

INLINE Floats scaleOf(const float *scales, Position output, int format) {
  return format == BYTE ? load(scales + output) : all(1);
}

/* Few rows: weights are widened as they are used. Sums are in the order of `tile`, so that bits are the same. */
INLINE void fewRows(const Outside *o, int rows, int panels, int format, Position panel, float *c) {
  Floats sums[6][8], right[8];
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < panels; j++)
      sums[i][j] = o->adds ? load(c + i * o->cRow + 8 * j) : all(0);
  const float *a = o->a;
  const Position stride = o->inputs * 8;
  Floats scale[8];
  UNROLL for (int j = 0; j < panels; j++) scale[j] = scaleOf(o->scales, (c - o->c) + 8 * j, format);
  for (Position term = 0; term < o->inputs; term++, panel += 8) {
    UNROLL for (int j = 0; j < panels; j++) right[j] = widened(o->weights, panel + j * stride, format, scale[j]);
    UNROLL for (int i = 0; i < rows; i++) {
      const Floats left = all(a[i * o->aRow + term]);
      UNROLL for (int j = 0; j < panels; j++) sums[i][j] = FUSED(left, right[j], sums[i][j]);
    }
  }
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < panels; j++) store(c + i * o->cRow + 8 * j, sums[i][j]);
}

INLINE void fewRowsOf(const Outside *o, int rows, int panels, int format) {
  Position panel = o->first, columns = o->n;
  float *c = o->c;
  const Position stride = o->inputs * 8;
  for (; columns >= 8 * panels; columns -= 8 * panels, panel += panels * stride, c += 8 * panels)
    fewRows(o, rows, panels, format, panel, c);
  for (; columns > 0; columns -= 8, panel += stride, c += 8) fewRows(o, rows, 1, format, panel, c);
}

/* Many rows: weights are widened once, a block that fits into the innermost cache at a time. */
INLINE void manyRows(const Outside *o, int format) {
  float block[2 * 8 * DEPTH] __attribute__((aligned(64)));
  for (Position from = 0; from < o->inputs; from += DEPTH) {
    const Position terms = o->inputs - from < DEPTH ? o->inputs - from : DEPTH;
    const Product p = {
      .a = o->a + from, .aRow = o->aRow, .aColumn = 1, .b = block, .panel = 8 * DEPTH, .c = o->c, .cRow = o->cRow,
      .m = o->m, .n = o->n, .k = terms, .adds = o->adds || from > 0
    };
    for (Position column = 0; column < o->n; column += 16) {
      const int panels = o->n - column >= 16 ? 2 : 1;
      for (int j = 0; j < panels; j++) {
        const Position panel = o->first + (column / 8 + j) * o->inputs * 8 + from * 8;
        const Floats scale = scaleOf(o->scales, column + 8 * j, format);
        for (Position term = 0; term < terms; term++)
          store(block + j * 8 * DEPTH + term * 8, widened(o->weights, panel + term * 8, format, scale));
      }
      if (panels == 2) down(&p, 2, block, o->c + column);
      else down(&p, 1, block, o->c + column);
    }
  }
}

INLINE void outsideOf(const Outside *o, int format) {
  switch (o->m) {
    case 1: fewRowsOf(o, 1, 8, format); break;
    case 2: fewRowsOf(o, 2, 4, format); break;
    case 3: fewRowsOf(o, 3, 4, format); break;
    case 4: fewRowsOf(o, 4, 2, format); break;
    case 5: fewRowsOf(o, 5, 2, format); break;
    case 6: fewRowsOf(o, 6, 2, format); break;
    default: manyRows(o, format);
  }
}

static VECTORS void outsideFloat(const Outside *o) { outsideOf(o, FLOAT); }
static VECTORS void outsideBrain(const Outside *o) { outsideOf(o, BRAIN); }
static VECTORS void outsideHalf(const Outside *o) { outsideOf(o, HALF); }
static VECTORS void outsideByte(const Outside *o) { outsideOf(o, BYTE); }

/* Eight vectors of eight as their transpose. */
INLINE void transpose8(Floats *r) {
  Floats t[8], u[8];
  UNROLL for (int i = 0; i < 8; i += 2) {
    t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  UNROLL for (int i = 0; i < 8; i += 4) {
    u[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    u[i + 1] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    u[i + 2] = __builtin_shufflevector(t[i + 1], t[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    u[i + 3] = __builtin_shufflevector(t[i + 1], t[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  UNROLL for (int i = 0; i < 4; i++) {
    r[i] = __builtin_shufflevector(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    r[i + 4] = __builtin_shufflevector(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/* Panels of eight outputs as panels of eight inputs with `outputs` rows each: what products with the transpose read. */
INLINE void transposed(
  const void *weights, const float *scales, Position first, Position inputs, Position outputs, float *target, int format
) {
  Floats rows[8];
  for (Position output = 0; output < outputs; output += 8) {
    const Position panel = first + output * inputs;
    const Floats scale = scaleOf(scales, output, format);
    for (Position input = 0; input < inputs; input += 8) {
      UNROLL for (int i = 0; i < 8; i++) rows[i] = widened(weights, panel + (input + i) * 8, format, scale);
      transpose8(rows);
      float *to = target + input * outputs + output * 8;
      UNROLL for (int i = 0; i < 8; i++) store(to + i * 8, rows[i]);
    }
  }
}

static VECTORS void transpose(
  const void *weights, const float *scales, Position first, Position inputs, Position outputs, float *target, int format
) {
  switch (format) {
    case FLOAT: transposed(weights, scales, first, inputs, outputs, target, FLOAT); break;
    case BRAIN: transposed(weights, scales, first, inputs, outputs, target, BRAIN); break;
    case HALF: transposed(weights, scales, first, inputs, outputs, target, HALF); break;
    default: transposed(weights, scales, first, inputs, outputs, target, BYTE);
  }
}

/* Sixteen-bit rows of eight outputs as one panel, and what is left of a last panel as zeros. */
static void panels16(unsigned short *target, const unsigned short *source, Position inputs, Position firstOutput, Position rows) {
  for (Position row = 0; row < rows; row++) {
    const Position output = firstOutput + row;
    unsigned short *to = target + (output / 8) * inputs * 8 + output % 8;
    const unsigned short *from = source + row * inputs;
    for (Position input = 0; input < inputs; input++) to[input * 8] = from[input];
  }
}

typedef struct {
  float *memory;
  Position length;
  const void *weights;
  Position count;
  int format;
  /* 0: a product, 1: a transpose */
  int operation;
  int a, aRow, c, cRow, m, first, n, inputs, adds;
} OutsideFrame;

static napi_value outside(napi_env env, napi_callback_info info) {
  void *data;
  if (napi_get_cb_info(env, info, 0, 0, 0, &data) != napi_ok) return 0;
  const OutsideFrame *f = data;
  const Frame whole = { .memory = f->memory, .length = f->length };
  const Position m = f->m, n = f->n, inputs = f->inputs, first = (Position)f->first * inputs;
  /* behind weights of eight bits lie the scales of their outputs, four bytes each */
  const Position outputs = inputs <= 0 ? 0 : f->format == BYTE ? f->count / (inputs + 4) : f->count / inputs;
  const int fits = n > 0 && n % 8 == 0 && inputs > 0 && inputs % 8 == 0 && f->first >= 0 && f->first % 8 == 0 &&
                   f->first + n <= outputs;
  const float *scales = f->format == BYTE && fits
    ? (const float *)((const signed char *)f->weights + inputs * outputs) + f->first
    : 0;
  if (f->operation == 1) {
    if (!fits || !within(&whole, f->c, n * inputs)) {
      napi_throw_range_error(env, 0, "a transpose outside of the memory");
      return 0;
    }
    transpose(f->weights, scales, first, inputs, n, f->memory + f->c, f->format);
    return 0;
  }
  if (!fits || m <= 0 || f->aRow < 0 || f->cRow < 0 || !within(&whole, f->a, (m - 1) * f->aRow + inputs) ||
      !within(&whole, f->c, (m - 1) * f->cRow + n)) {
    napi_throw_range_error(env, 0, "a product outside of the memory");
    return 0;
  }
  const Outside o = {
    .a = f->memory + f->a, .aRow = f->aRow, .weights = f->weights, .scales = scales, .first = first, .inputs = inputs,
    .c = f->memory + f->c, .cRow = f->cRow, .m = m, .n = n, .adds = f->adds
  };
  if (f->format == FLOAT) outsideFloat(&o);
  else if (f->format == BRAIN) outsideBrain(&o);
  else if (f->format == HALF) outsideHalf(&o);
  else outsideByte(&o);
  return 0;
}

/* ----------------------------------------------------------------------------------------------------------- parameters */

/* target += source */
static VECTORS void add(float *target, const float *source, Position count) {
  Position i = 0;
  for (; i + 8 <= count; i += 8) store(target + i, load(target + i) + load(source + i));
  for (; i < count; i++) target[i] += source[i];
}

/* As `adam` of adamw.ts has them. */
typedef struct {
  double clip, beta1, rest1, beta2, rest2, correct1, correct2, eps, keep, learningRate;
} Factors;

INLINE Doubles4 wide(const float *from) { return __builtin_convertvector(*(const Floats4 *)from, Doubles4); }
INLINE void narrow(float *to, Doubles4 values) { *(Floats4 *)to = __builtin_convertvector(values, Floats4); }

/* Four parameters, with the roundings of JavaScript: numbers are doubles until they are stored. */
INLINE void adam4(float *values, const float *gradient, float *first, float *second, const Factors *f) {
  const Doubles4 slope = wide(gradient) * f->clip;
  const Doubles4 m = f->beta1 * wide(first) + f->rest1 * slope;
  const Doubles4 v = f->beta2 * wide(second) + f->rest2 * slope * slope;
  narrow(first, m);
  narrow(second, v);
  const Doubles4 divisor = __builtin_elementwise_sqrt(v * f->correct2) + f->eps;
  const Doubles4 quotient = m * f->correct1 / divisor;
  const Doubles4 change = (Doubles4)(~(Masks4)(divisor == 0) & (Masks4)quotient);
  narrow(values, wide(values) * f->keep - f->learningRate * change);
}

static VECTORS void adam(
  float *values, const float *gradient, float *first, float *second, const Factors *factors, Position count
) {
  Position i = 0;
  for (; i + 4 <= count; i += 4) adam4(values + i, gradient + i, first + i, second + i, factors);
  if (i == count) return;
  float last[4][4] = { { 0 } };
  for (Position j = i; j < count; j++) {
    last[0][j - i] = values[j];
    last[1][j - i] = gradient[j];
    last[2][j - i] = first[j];
    last[3][j - i] = second[j];
  }
  adam4(last[0], last[1], last[2], last[3], factors);
  for (Position j = i; j < count; j++) {
    values[j] = last[0][j - i];
    first[j] = last[2][j - i];
    second[j] = last[3][j - i];
  }
}

/* ----------------------------------------------------------------------------------------------------- what Node sees */

/* The numbers of a typed array; none if it is not of that type, or shorter. */
static void *numbersOf(napi_env env, napi_value value, napi_typedarray_type wanted, Position length) {
  napi_typedarray_type type;
  size_t found;
  void *data;
  if (napi_get_typedarray_info(env, value, &type, &found, &data, 0, 0) != napi_ok) return 0;
  return type == wanted && (Position)found >= length ? data : 0;
}

static napi_value refuse(napi_env env) {
  napi_throw_range_error(env, 0, "arrays of other lengths or types");
  return 0;
}

enum { MOST = 7 };

/* All arguments, of which the last two are the range from `from` to `to`. */
static int argumentsOf(napi_env env, napi_callback_info info, size_t count, napi_value *values, int *from, int *to) {
  size_t found = count;
  return napi_get_cb_info(env, info, &found, values, 0, 0) == napi_ok && found == count &&
         napi_get_value_int32(env, values[count - 2], from) == napi_ok &&
         napi_get_value_int32(env, values[count - 1], to) == napi_ok && 0 <= *from && *from <= *to;
}

/* add(target, source, from, to) */
static napi_value addOf(napi_env env, napi_callback_info info) {
  napi_value values[MOST];
  int from, to;
  if (!argumentsOf(env, info, 4, values, &from, &to)) return refuse(env);
  float *target = numbersOf(env, values[0], napi_float32_array, to);
  const float *source = numbersOf(env, values[1], napi_float32_array, to);
  if (target == 0 || source == 0) return from == to ? 0 : refuse(env);
  add(target + from, source + from, to - from);
  return 0;
}

/* adam(values, gradient, first, second, factors, from, to) */
static napi_value adamOf(napi_env env, napi_callback_info info) {
  napi_value values[MOST];
  int from, to;
  float *parameters[4];
  if (!argumentsOf(env, info, 7, values, &from, &to)) return refuse(env);
  for (int i = 0; i < 4; i++) {
    parameters[i] = numbersOf(env, values[i], napi_float32_array, to);
    if (parameters[i] == 0) return from == to ? 0 : refuse(env);
  }
  const Factors *factors = numbersOf(env, values[4], napi_float64_array, sizeof(Factors) / sizeof(double));
  if (factors == 0) return refuse(env);
  adam(parameters[0] + from, parameters[1] + from, parameters[2] + from, parameters[3] + from, factors, to - from);
  return 0;
}

/* gemmOver(memory, frame): a function without arguments, which reads them from the frame. */
static napi_value gemmOver(napi_env env, napi_callback_info info) {
  size_t count = 2, length;
  napi_value values[2], result;
  napi_typedarray_type type;
  void *memory;
  if (napi_get_cb_info(env, info, &count, values, 0, 0) != napi_ok || count != 2) return refuse(env);
  if (napi_get_typedarray_info(env, values[0], &type, &length, &memory, 0, 0) != napi_ok) return refuse(env);
  Frame *frame = numbersOf(env, values[1], napi_int32_array, sizeof(Frame) / sizeof(int));
  if (type != napi_float32_array || frame == 0) return refuse(env);
  frame->memory = memory;
  frame->length = (Position)length;
  return napi_create_function(env, 0, 0, gemm, frame, &result) == napi_ok ? result : 0;
}

/* outsideOver(memory, weights, format, frame): a function without arguments, which reads them from the frame. */
static napi_value outsideOver(napi_env env, napi_callback_info info) {
  size_t count = 4, length, values16;
  napi_value values[4], result;
  napi_typedarray_type type, kind;
  void *memory, *weights;
  int format;
  if (napi_get_cb_info(env, info, &count, values, 0, 0) != napi_ok || count != 4) return refuse(env);
  if (napi_get_typedarray_info(env, values[0], &type, &length, &memory, 0, 0) != napi_ok) return refuse(env);
  if (napi_get_typedarray_info(env, values[1], &kind, &values16, &weights, 0, 0) != napi_ok) return refuse(env);
  if (napi_get_value_int32(env, values[2], &format) != napi_ok || format < FLOAT || format > BYTE) return refuse(env);
  if (kind != (format == FLOAT ? napi_float32_array : format == BYTE ? napi_int8_array : napi_uint16_array))
    return refuse(env);
  OutsideFrame *frame = numbersOf(env, values[3], napi_int32_array, sizeof(OutsideFrame) / sizeof(int));
  if (type != napi_float32_array || frame == 0) return refuse(env);
  frame->memory = memory;
  frame->length = (Position)length;
  frame->weights = weights;
  frame->count = (Position)values16;
  frame->format = format;
  return napi_create_function(env, 0, 0, outside, frame, &result) == napi_ok ? result : 0;
}

/* panels(target, source, inputs, from, to): rows of 16 bits, outputs from `from` to `to`, into panels of eight outputs. */
static napi_value panelsOf(napi_env env, napi_callback_info info) {
  napi_value values[MOST];
  int inputs, from, to;
  if (!argumentsOf(env, info, 5, values, &from, &to)) return refuse(env);
  if (napi_get_value_int32(env, values[2], &inputs) != napi_ok || inputs <= 0) return refuse(env);
  unsigned short *target = numbersOf(env, values[0], napi_uint16_array, (to + 7LL) / 8 * 8 * inputs);
  const unsigned short *source = numbersOf(env, values[1], napi_uint16_array, (Position)(to - from) * inputs);
  if (target == 0 || source == 0) return from == to ? 0 : refuse(env);
  panels16(target, source, inputs, from, to - from);
  return 0;
}

#ifdef __x86_64__
#include <cpuid.h>
/* Whether the processor has the vectors, and the system saves them when it switches threads. */
static int isSupported(void) {
  unsigned a, b, c, d, low, high;
  const unsigned wanted = bit_FMA | bit_OSXSAVE | bit_AVX | bit_F16C;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & wanted) != wanted) return 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2) != 0;
}
#else
static int isSupported(void) { return 1; }
#endif

static void define(napi_env env, napi_value exports, const char *name, napi_callback callback) {
  napi_value value;
  if (napi_create_function(env, 0, 0, callback, 0, &value) == napi_ok)
    napi_set_named_property(env, exports, name, value);
}

/* Nothing is exported where it cannot run. */
NAPI_MODULE_INIT() {
  napi_value source;
  if (!isSupported()) return exports;
  define(env, exports, "gemmOver", gemmOver);
  define(env, exports, "outsideOver", outsideOver);
  define(env, exports, "panels", panelsOf);
  define(env, exports, "add", addOf);
  define(env, exports, "adam", adamOf);
  /* the hash of this file, by which a test knows that the binary was made from it */
  if (napi_create_string_utf8(env, SOURCE, NAPI_AUTO_LENGTH, &source) == napi_ok)
    napi_set_named_property(env, exports, "source", source);
  return exports;
}

#ifdef _WIN32
/* Nothing is to be done when the library is loaded. */
int DllMainCRTStartup(void *library, unsigned reason, void *reserved) {
  (void)library, (void)reason, (void)reserved;
  return 1;
}
#endif
