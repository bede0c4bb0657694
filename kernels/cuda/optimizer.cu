// Optimizers. Each updates its slots, of which the variable is the first, with a gradient in one pass.
#include "troupe.cuh"

// Apply holds the arguments that all optimizers take. For an update in place, from equals to.
struct Apply {
  u64 n;                // elements of each slot
  const void *grad;     // dense: n elements
  const void *from[4];  // the slots as they were
  void *to[4];          // and as they become
  const void *h[6];     // scalars of the slots' type, in the order of the op's inputs
  u64 flag;             // the op's boolean attribute
};

// Rows describes the rows of the slots that a sparse update changes in place, in Apply's from. An index out of range is skipped, as on
// TensorFlow's GPUs.
struct Rows {
  const void *indices;
  u64 count;            // indices, and rows of the gradient
  u64 wide;             // whether indices are int64, not int32
  u64 rows, inner;      // of a slot
  u64 *table;           // 3 * (mask+1) words that have all bits set
  u64 mask;             // a power of two, at least 2*count, less one
};

template <class T> DEVICE T sign(T v) { return v > 0 ? T(1) : v < 0 ? T(-1) : v; }
template <class T> DEVICE T largest(T a, T b) { return a != a || a > b ? a : b; }

// shrink is the proximal step: it moves v towards zero by l1 and divides it by the weight from l2.
template <class W> DEVICE W shrink(W v, W rate, W l1, W l2) {
  if (l1 > 0) v = sign(v) * largest(abs(v) - rate * l1, W(0));
  return v / (1 + l2 * rate);
}

// An optimizer declares its numbers of slots and scalars, is constructed from the scalars and the flag, and updates the slots s of one
// element with its gradient g.

template <class W> struct gradient_descent {
  static constexpr int slots = 1, scalars = 1;
  W alpha;
  __device__ gradient_descent(const W *h, bool) : alpha(h[0]) {}
  __device__ void operator()(W *s, W g) const { s[0] -= g * alpha; }
};

template <class W> struct proximal_gradient_descent {
  static constexpr int slots = 1, scalars = 3;
  W alpha, l1, l2;
  __device__ proximal_gradient_descent(const W *h, bool) : alpha(h[0]), l1(h[1]), l2(h[2]) {}
  __device__ void operator()(W *s, W g) const { s[0] = shrink(s[0] - g * alpha, alpha, l1, l2); }
};

// Slots: var, accum.
template <class W> struct momentum {
  static constexpr int slots = 2, scalars = 2;
  W lr, mom;
  bool nesterov;
  __device__ momentum(const W *h, bool flag) : lr(h[0]), mom(h[1]), nesterov(flag) {}
  __device__ void operator()(W *s, W g) const {
    s[1] = s[1] * mom + g;
    s[0] -= nesterov ? g * lr + s[1] * mom * lr : s[1] * lr;
  }
};

template <class W> struct keras_momentum {
  static constexpr int slots = 2, scalars = 2;
  W lr, mom;
  bool nesterov;
  __device__ keras_momentum(const W *h, bool flag) : lr(h[0]), mom(h[1]), nesterov(flag) {}
  __device__ void operator()(W *s, W g) const {
    s[1] = s[1] * mom - g * lr;
    s[0] += nesterov ? s[1] * mom - g * lr : s[1];
  }
};

// Slots: var, m, v; scalars: beta1_power, beta2_power, lr, beta1, beta2, epsilon.
template <class W> struct adam {
  static constexpr int slots = 3, scalars = 6;
  W rate, beta1, rest1, rest2, epsilon;
  bool nesterov;
  __device__ adam(const W *h, bool flag)
      : rate(h[2] * sqrt(1 - h[1]) / (1 - h[0])), beta1(h[3]), rest1(1 - h[3]), rest2(1 - h[4]), epsilon(h[5]), nesterov(flag) {}
  __device__ void moments(W *s, W g) const {
    s[1] += (g - s[1]) * rest1;
    s[2] += (g * g - s[2]) * rest2;
  }
  __device__ void operator()(W *s, W g) const {
    moments(s, g);
    W step = nesterov ? g * rest1 + beta1 * s[1] : s[1];
    s[0] -= step * rate / (sqrt(s[2]) + epsilon);
  }
};

// Slots: var, m, v, vhat.
template <class W> struct adam_with_amsgrad : adam<W> {
  static constexpr int slots = 4;
  __device__ adam_with_amsgrad(const W *h, bool) : adam<W>(h, false) {}
  __device__ void operator()(W *s, W g) const {
    this->moments(s, g);
    s[3] = largest(s[3], s[2]);
    s[0] -= s[1] * this->rate / (sqrt(s[3]) + this->epsilon);
  }
};

// Scalars: beta1_power, lr, beta1, beta2, epsilon.
template <class W> struct ada_max {
  static constexpr int slots = 3, scalars = 5;
  W rate, rest1, beta2, epsilon;
  __device__ ada_max(const W *h, bool) : rate(h[1] / (1 - h[0])), rest1(1 - h[2]), beta2(h[3]), epsilon(h[4]) {}
  __device__ void operator()(W *s, W g) const {
    s[1] += (g - s[1]) * rest1;
    s[2] = largest(beta2 * s[2], abs(g));
    s[0] -= rate * (s[1] / (s[2] + epsilon));
  }
};

// Slots: var, accum.
template <class W> struct adagrad {
  static constexpr int slots = 2, scalars = 1;
  W lr;
  bool update;
  __device__ adagrad(const W *h, bool flag) : lr(h[0]), update(flag) {}
  __device__ void operator()(W *s, W g) const {
    if (update) s[1] += g * g;
    s[0] -= g * lr / sqrt(s[1]);
  }
};

template <class W> struct adagrad_v2 {
  static constexpr int slots = 2, scalars = 2;
  W lr, epsilon;
  bool update;
  __device__ adagrad_v2(const W *h, bool flag) : lr(h[0]), epsilon(h[1]), update(flag) {}
  __device__ void operator()(W *s, W g) const {
    if (update) s[1] += g * g;
    s[0] -= g * lr / (sqrt(s[1]) + epsilon);
  }
};

template <class W> struct proximal_adagrad {
  static constexpr int slots = 2, scalars = 3;
  W lr, l1, l2;
  __device__ proximal_adagrad(const W *h, bool) : lr(h[0]), l1(h[1]), l2(h[2]) {}
  __device__ void operator()(W *s, W g) const {
    s[1] += g * g;
    W rate = lr / sqrt(s[1]);
    s[0] = shrink(s[0] - g * rate, rate, l1, l2);
  }
};

// Slots: var, accum, accum_update.
template <class W> struct adadelta {
  static constexpr int slots = 3, scalars = 3;
  W lr, rho, epsilon;
  __device__ adadelta(const W *h, bool) : lr(h[0]), rho(h[1]), epsilon(h[2]) {}
  __device__ void operator()(W *s, W g) const {
    s[1] = s[1] * rho + g * g * (1 - rho);
    W step = sqrt(s[2] + epsilon) / sqrt(s[1] + epsilon) * g;
    s[0] -= step * lr;
    s[2] = s[2] * rho + step * step * (1 - rho);
  }
};

// Slots: var, ms, mom.
template <class W> struct rms_prop {
  static constexpr int slots = 3, scalars = 4;
  W lr, rest, mom, epsilon;
  __device__ rms_prop(const W *h, bool) : lr(h[0]), rest(1 - h[1]), mom(h[2]), epsilon(h[3]) {}
  __device__ void operator()(W *s, W g) const {
    s[1] += (g * g - s[1]) * rest;
    s[2] = s[2] * mom + g * lr / sqrt(s[1] + epsilon);
    s[0] -= s[2];
  }
};

// Slots: var, mg, ms, mom.
template <class W> struct centered_rms_prop {
  static constexpr int slots = 4, scalars = 4;
  W lr, rest, mom, epsilon;
  __device__ centered_rms_prop(const W *h, bool) : lr(h[0]), rest(1 - h[1]), mom(h[2]), epsilon(h[3]) {}
  __device__ void operator()(W *s, W g) const {
    s[2] += (g * g - s[2]) * rest;
    s[1] += (g - s[1]) * rest;
    s[3] = s[3] * mom + g * lr / sqrt(s[2] - s[1] * s[1] + epsilon);
    s[0] -= s[3];
  }
};

// power_of is not inlined into the loops that call it: it is long, and rarely called.
template <class W> static __device__ __attribute__((noinline)) W power_of(W x, W e) { return pow(x, e); }

// Slots: var, accum, linear. If the flag is set, linear is kept multiplied by lr.
template <class W> struct follow {
  static constexpr int slots = 3;
  W lr, l1, l2, shrinkage, power;
  bool by_lr;
  __device__ follow(W lr, W l1, W l2, W shrinkage, W power, bool by_lr)
      : lr(lr), l1(l1), l2(l2), shrinkage(shrinkage), power(power), by_lr(by_lr) {}
  __device__ W raise(W x) const { return power == W(-0.5) ? sqrt(x) : power_of(x, -power); }
  __device__ void operator()(W *s, W g) const {
    W next = s[1] + g * g, raised = raise(next);
    W sigma = raised - raise(s[1]), rest = g + 2 * shrinkage * s[0], bound = l1, quadratic = raised;
    if (by_lr) {
      rest *= lr;
      bound *= lr;
      quadratic += 2 * l2 * lr;
    } else {
      sigma /= lr;
      quadratic = quadratic / lr + 2 * l2;
    }
    s[2] += rest - sigma * s[0];
    s[0] = abs(s[2]) > bound ? (bound * sign(s[2]) - s[2]) / quadratic : W(0);
    s[1] = next;
  }
};

// Scalars: lr, l1, l2, lr_power.
template <class W> struct ftrl : follow<W> {
  static constexpr int scalars = 4;
  __device__ ftrl(const W *h, bool flag) : follow<W>(h[0], h[1], h[2], 0, h[3], flag) {}
};

// Scalars: lr, l1, l2, l2_shrinkage, lr_power.
template <class W> struct ftrl_v2 : follow<W> {
  static constexpr int scalars = 5;
  __device__ ftrl_v2(const W *h, bool flag) : follow<W>(h[0], h[1], h[2], h[3], h[4], flag) {}
};

// Slots: var, m; scalars: lr, alpha or logbase, sign_decay, beta.
template <class W> struct add_sign {
  static constexpr int slots = 2, scalars = 4;
  W lr, alpha, decay, beta;
  __device__ add_sign(const W *h, bool) : lr(h[0]), alpha(h[1]), decay(h[2]), beta(h[3]) {}
  __device__ void operator()(W *s, W g) const {
    s[1] = s[1] * beta + g * (1 - beta);
    s[0] -= lr * (alpha + decay * sign(g) * sign(s[1])) * g;
  }
};

template <class W> struct power_sign {
  static constexpr int slots = 2, scalars = 4;
  W lr, base, decay, beta;
  __device__ power_sign(const W *h, bool) : lr(h[0]), base(h[1]), decay(h[2]), beta(h[3]) {}
  __device__ void operator()(W *s, W g) const {
    s[1] = s[1] * beta + g * (1 - beta);
    s[0] -= lr * exp(base * decay * sign(g) * sign(s[1])) * g;
  }
};

// scalars_of reads the scalars, which are in device memory.
template <class U, class T, class W> DEVICE U scalars_of(const Apply &p) {
  W h[U::scalars];
  for (int i = 0; i < U::scalars; i++) h[i] = W(*(const T *)p.h[i]);
  return U(h, p.flag != 0);
}

// apply updates all elements, 16 bytes of each slot at once if all slots are aligned for that.
template <template <class> class O, class T> DEVICE void apply(const Apply &p) {
  typedef typename Wide<T>::type W;
  typedef O<W> U;
  const U update = scalars_of<U, T, W>(p);
  constexpr int width = 16 / sizeof(T);
  struct alignas(16) Pack { T v[width]; };
  u64 places = (u64)p.grad;
  for (int k = 0; k < U::slots; k++) places |= (u64)p.from[k] | (u64)p.to[k];
  u64 packs = places % 16 == 0 ? p.n / width : 0;
  GRID_LOOP(i, packs) {
    Pack g = ((const Pack *)p.grad)[i], s[U::slots];
#pragma unroll
    for (int k = 0; k < U::slots; k++) s[k] = ((const Pack *)p.from[k])[i];
#pragma unroll
    for (int j = 0; j < width; j++) {
      W e[U::slots];
#pragma unroll
      for (int k = 0; k < U::slots; k++) e[k] = W(s[k].v[j]);
      update(e, W(g.v[j]));
#pragma unroll
      for (int k = 0; k < U::slots; k++) s[k].v[j] = T(e[k]);
    }
#pragma unroll
    for (int k = 0; k < U::slots; k++) ((Pack *)p.to[k])[i] = s[k];
  }
  GRID_LOOP(rest, p.n - packs * width) {
    u64 i = packs * width + rest;
    W e[U::slots];
#pragma unroll
    for (int k = 0; k < U::slots; k++) e[k] = W(((const T *)p.from[k])[i]);
    update(e, W(((const T *)p.grad)[i]));
#pragma unroll
    for (int k = 0; k < U::slots; k++) ((T *)p.to[k])[i] = T(e[k]);
  }
}

DEVICE i64 index_at(const Rows &r, u64 i) { return r.wide ? ((const i64 *)r.indices)[i] : ((const i32 *)r.indices)[i]; }

// find returns a row's entry in the table, an open-addressing hash table of the rows that indices name. An entry has three words: the row,
// the first index that names it, and the number of such indices less one.
DEVICE u64 *find(const Rows &r, u64 row) {
  for (u64 at = row * 0x9e3779b97f4a7c15ull >> 20;; at++) {
    u64 *place = r.table + (at & r.mask) * 3;
    u64 seen = *place;
    if (seen == ~0ull) seen = atomicCAS(place, ~0ull, row);
    if (seen == row || seen == ~0ull) return place;
  }
}

// sparse_rows fills the table. A row that is named more than once has one owner, the first index that names it, which applies the updates
// in the order of the indices.
KERNEL(sparse_rows)(Rows r) {
  GRID_LOOP(i, r.count) {
    i64 row = index_at(r, i);
    if (row < 0 || (u64)row >= r.rows) continue;
    u64 *place = find(r, row);
    atomicMin(place + 1, (u64)i);
    atomicAdd(place + 2, (u64)1);
  }
}

template <template <class> class O, class T> DEVICE void sparse_apply(const Apply &p, const Rows &r) {
  typedef typename Wide<T>::type W;
  typedef O<W> U;
  const U update = scalars_of<U, T, W>(p);
  GRID_LOOP(e, r.count * r.inner) {
    u64 i = e / r.inner, column = e % r.inner;
    i64 row = index_at(r, i);
    if (row < 0 || (u64)row >= r.rows) continue;
    const u64 *place = find(r, row);
    if (place[1] != i) continue;
    u64 at = row * r.inner + column;
    T s[U::slots];
    for (int k = 0; k < U::slots; k++) s[k] = ((const T *)p.from[k])[at];
    for (u64 left = place[2] + 1, j = i; left > 0; j++) {
      if (index_at(r, j) != row) continue;
      W v[U::slots];
      for (int k = 0; k < U::slots; k++) v[k] = W(s[k]);
      update(v, W(((const T *)p.grad)[j * r.inner + column]));
      for (int k = 0; k < U::slots; k++) s[k] = T(v[k]);
      left--;
    }
    for (int k = 0; k < U::slots; k++) ((T *)p.to[k])[at] = s[k];
  }
}

#define DENSE_OF(name, suffix, type) \
  KERNEL(apply_##name##_##suffix)(Apply p) { apply<name, type>(p); }
#define SPARSE_OF(name, suffix, type) \
  KERNEL(sparse_apply_##name##_##suffix)(Apply p, Rows r) { sparse_apply<name, type>(p, r); }
#define ALL_TYPES(form, name) form(name, f32, float) form(name, f64, double) form(name, f16, half) form(name, bf16, bfloat16)

ALL_TYPES(DENSE_OF, gradient_descent)
ALL_TYPES(DENSE_OF, proximal_gradient_descent)
ALL_TYPES(DENSE_OF, momentum)
ALL_TYPES(DENSE_OF, keras_momentum)
ALL_TYPES(DENSE_OF, adam)
ALL_TYPES(DENSE_OF, adam_with_amsgrad)
ALL_TYPES(DENSE_OF, ada_max)
ALL_TYPES(DENSE_OF, adagrad)
ALL_TYPES(DENSE_OF, adagrad_v2)
ALL_TYPES(DENSE_OF, proximal_adagrad)
ALL_TYPES(DENSE_OF, adadelta)
ALL_TYPES(DENSE_OF, rms_prop)
ALL_TYPES(DENSE_OF, centered_rms_prop)
ALL_TYPES(DENSE_OF, ftrl)
ALL_TYPES(DENSE_OF, ftrl_v2)
ALL_TYPES(DENSE_OF, add_sign)
ALL_TYPES(DENSE_OF, power_sign)

ALL_TYPES(SPARSE_OF, momentum)
ALL_TYPES(SPARSE_OF, keras_momentum)
ALL_TYPES(SPARSE_OF, adagrad)
ALL_TYPES(SPARSE_OF, adagrad_v2)
ALL_TYPES(SPARSE_OF, proximal_adagrad)
ALL_TYPES(SPARSE_OF, ftrl)
ALL_TYPES(SPARSE_OF, ftrl_v2)
