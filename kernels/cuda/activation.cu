// Activations and their gradients, which take the gradient of the result and the op's input or, for elu and selu, its output. Also
// gradients of functions, which take the result and its gradient.
#include "elementwise.cuh"

FUNCTION1(Relu, x <= 0 ? T(0) : x) // NaN stays NaN
FUNCTION1(Relu6, x <= 0 ? T(0) : x >= 6 ? T(6) : x)
FUNCTION1(Elu, x < 0 ? expm1(x) : x)
FUNCTION1(Softsign, x / (1 + fabs(x)))
FUNCTION1(Softplus, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)))

// The constants of SELU, from "Self-Normalizing Neural Networks" (Klambauer et al., 2017).
constexpr double selu_scale = 1.0507009873554804934193349852946, selu_scale_alpha = 1.7580993408473768599402175208123;
FUNCTION1(Selu, x < 0 ? T(selu_scale_alpha) * expm1(x) : T(selu_scale) * x)

struct LeakyRelu {
  template <class T> DEVICE T of(T x, double alpha) { return x > 0 ? x : x * T(alpha); }
};
struct LeakyReluGrad {
  template <class T> DEVICE T of(T g, T x, double alpha) { return x > 0 ? g : g * T(alpha); }
};

// Multiplying by a factor of 0 turns infinite gradients into NaN, as TensorFlow does.
FUNCTION2(ReluGrad, x *(y > 0 ? T(1) : T(0)))
FUNCTION2(Relu6Grad, x *(y > 0 && y < 6 ? T(1) : T(0)))
FUNCTION2(EluGrad, y < 0 ? (y + 1) * x : x)
FUNCTION2(SeluGrad, y < 0 ? x * (y + T(selu_scale_alpha)) : x *T(selu_scale))
FUNCTION2(SoftplusGrad, x / (exp(-y) + 1))
FUNCTION2(SoftsignGrad, x / ((1 + fabs(y)) * (1 + fabs(y))))

FUNCTION2(TanhGrad, y *(1 - x * x))
FUNCTION2(SigmoidGrad, y *x *(1 - x))
FUNCTION2(SqrtGrad, y == 0 ? T(0) : T(0.5) * y / x)
FUNCTION2(RsqrtGrad, y == 0 ? T(0) : T(-0.5) * (y * x) * (x * x))
FUNCTION2(ReciprocalGrad, y == 0 ? T(0) : -x * x * y)

#define LEAKY(name, F, suffix, T)                                                             \
  KERNEL(name##_##suffix)(const T *a, T *out, u64 n, double alpha) { unary<F, T, T>(a, out, n, alpha); } \
  KERNEL(name##grad_##suffix)(const T *g, const T *a, T *out, u64 n, double alpha) { zip<F##Grad>(g, a, out, n, alpha); }

FLOATS(UNARY, relu, Relu)
FLOATS(UNARY, relu6, Relu6)
FLOATS(LEAKY, leakyrelu, LeakyRelu)
FLOATS(COSTLY, elu, Elu)
FLOATS(COSTLY, selu, Selu)
FLOATS(COSTLY, softplus, Softplus)
FLOATS(UNARY, softsign, Softsign)
FLOATS(ZIP, relugrad, ReluGrad)
FLOATS(ZIP, relu6grad, Relu6Grad)
FLOATS(ZIP, elugrad, EluGrad)
FLOATS(SINGLE2, selugrad, SeluGrad)
FLOATS(SINGLE2, softplusgrad, SoftplusGrad)
FLOATS(SINGLE2, softsigngrad, SoftsignGrad)
FLOATS(ZIP, tanhgrad, TanhGrad)
FLOATS(ZIP, sigmoidgrad, SigmoidGrad)
FLOATS(SINGLE2, sqrtgrad, SqrtGrad)
FLOATS(SINGLE2, rsqrtgrad, RsqrtGrad)
FLOATS(SINGLE2, reciprocalgrad, ReciprocalGrad)
