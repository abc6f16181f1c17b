#include "ops/linear.h"

#include <optional>
#include <tuple>

#include "base/bytes.h"
#include "device/catch_error.h"
#include "op_test.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

class LinearTest : public OpTest {
 protected:
  static Values expected(const Tensor& x, const Tensor& w, const Values& bias) {
    const auto rows = static_cast<std::size_t>(x.view.size(0));
    const auto in = static_cast<std::size_t>(x.view.size(1));
    const auto out = static_cast<std::size_t>(w.view.size(0));
    Values y;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t o = 0; o < out; ++o) {
        double sum = bias.empty() ? 0 : bias[o];
        for (std::size_t i = 0; i < in; ++i) sum += x.values[row * in + i] * w.values[o * in + i];
        y.push_back(sum);
      }
    }
    return y;
  }

  void check(const Tensor& x, const Tensor& w, const Tensor& y) {
    run({x, w, y}, [](auto& context, const auto& v) { ops::linear(context, v[0], v[1], v[2]); });
    expect_close(read(y), expected(x, w, {}));
  }

  void check(const Tensor& x, const Tensor& w, const Tensor& y, const Tensor& bias) {
    run({x, w, y, bias}, [](auto& context, const auto& v) { ops::linear(context, v[0], v[1], v[2], v[3]); });
    expect_close(read(y), expected(x, w, bias.values));
  }
};

TEST_P(LinearTest, MultipliesOddShapesInBothWeightTypes) {
  for (const auto& [rows, in, out] : {std::tuple{1, 1, 1}, {3, 5, 7}, {17, 160, 33}, {64, 33, 130}, {1, 256, 160}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << in << " -> " << out << " " << to_string(dtype));
      check(random({rows, in}), random(dtype, {out, in}), blank({rows, out}));
    }
  }
}

TEST_P(LinearTest, AddsABiasOfEitherType) {
  for (const DType weights : {DType::f32, DType::bf16}) {
    for (const DType biases : {DType::f32, DType::bf16}) {
      check(random({9, 20}), random(weights, {31, 20}), blank({9, 31}), random(biases, {31}));
    }
  }
}

TEST_P(LinearTest, TakesStridedRows) {
  check(random({13, 24}, {2, 9}), random(DType::bf16, {40, 24}), blank({13, 40}, {0, 7}), random({40}));
  check(random({13, 24}, {2, 9}), random(DType::f32, {40, 24}), blank({13, 40}, {0, 7}));
  // Rows on 16 bytes, the first element on 8 or 4.
  check(random({13, 24}, {0, 8}), random(DType::bf16, {40, 24}), blank({13, 40}, {0, 8}));
  check(random({13, 24}, {0, 8}), random(DType::f32, {40, 24}), blank({13, 40}, {0, 24}), random({40}));
}

TEST_P(LinearTest, MultipliesSingleRows) {
  for (const DType weights : {DType::f32, DType::bf16}) {
    check(random({1, 777}), random(weights, {65, 777}), blank({1, 65}), random(DType::f32, {65}));
    check(random({1, 1024}, {0, 10}), random(weights, {40, 1024}), blank({1, 40}, {0, 3}), random(DType::bf16, {40}));
    check(random({1, 1024}), random(weights, {40, 1024}), blank({1, 40}));
  }
}

TEST_P(LinearTest, SumsIntoF32) {
  for (const std::int64_t rows : {1, 19}) {
    const Tensor x = random({rows, 72});
    const Tensor w = random(DType::bf16, {41, 72});
    check(x, w, blank({rows, 41}, {0, 2}, DType::f32), random(DType::bf16, {41}));
    check(x, random(DType::f32, {41, 72}), blank({rows, 41}, {}, DType::f32));
  }
}

TEST_P(LinearTest, MultipliesTokensOfAModel) {
  check(random({130, 512}), random(DType::bf16, {768, 512}), blank({130, 768}));
}

TEST_P(LinearTest, WidensLargeWeightsInChunks) {
  // 9 MB as f32: more than one chunk, and the last one is shorter.
  const Tensor w = random(DType::bf16, {1111, 2048});
  check(random({3, 2048}), w, blank({3, 1111}, {0, 1}), random(DType::bf16, {1111}));
}

TEST_P(LinearTest, ScratchOfBf16WeightsIsBounded) {
  const ConstTensorView x(nullptr, DType::f32, {512, 3072});
  const ConstTensorView w(nullptr, DType::bf16, {27648, 3072});
  const TensorView y(nullptr, DType::f32, {512, 27648});
  ops::OpContext context = ops::OpContext::planning(*stream_);
  ops::linear(context, x, w, y);
  EXPECT_GT(context.peak_bytes(), 0U);
  EXPECT_LT(context.peak_bytes(), (on_cpu() ? 16 : 66) * kMiB);  // all of them would be 324 MiB
}

TEST_P(LinearTest, ReadsAndWritesColumnsOfOneBuffer) {
  const Tensor joined = random({5, 12});
  const TensorView x = joined.view.slice(1, 0, 4);
  const TensorView y = joined.view.slice(1, 4, 12);
  const Tensor w = random({8, 4});
  Tensor source{x, {}};
  for (std::size_t i = 0; i < 5 * 12; ++i) {
    if (i % 12 < 4) source.values.push_back(joined.values[i]);
  }
  run({source, w, {y, {}}}, [](auto& context, const auto& v) { ops::linear(context, v[0], v[1], v[2]); });
  Values actual;
  const Values now = read(joined);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (i % 12 >= 4) actual.push_back(now[i]);
  }
  expect_close(actual, expected(source, w, {}));
}

TEST_P(LinearTest, GivesTheSameBytesAgainAtAnyAddress) {
  for (const std::int64_t rows : {1, 64, 200}) {
    const Tensor x = random({rows, 160}, {0, 8});
    const Tensor w = random(DType::bf16, {96, 160});
    const Tensor bias = random(DType::bf16, {96});
    const auto multiply = [&] {
      const Tensor y = blank({rows, 96}, {0, 4});
      run({another(x, {0, 8}), another(w), y, another(bias)},
          [](auto& context, const auto& v) { ops::linear(context, v[0], v[1], v[2], v[3]); });
      return read(y);
    };
    const Values first = multiply();
    expect_close(first, expected(x, w, bias.values));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(multiply(), first);
  }
}

TEST_P(LinearTest, RefusesOperandsThatDoNotFit) {
  const Tensor x = random(DType::f32, {4, 6});
  const Tensor w = random(DType::f32, {3, 6});
  const Tensor y = blank({4, 3}, {}, DType::f32);
  const auto error = [&](const ConstTensorView& x_view, const ConstTensorView& w_view, const TensorView& y_view,
                         const std::optional<ConstTensorView>& bias = {}) {
    return catch_error([&] { plan([&](auto& context) { ops::linear(context, x_view, w_view, y_view, bias); }); });
  };

  const Error inner = error(x.view.slice(1, 0, 5), w.view, y.view);
  EXPECT_EQ(inner.code(), ErrorCode::internal);
  EXPECT_THAT(inner.message(), HasSubstr("linear: operand w is F32 [3, 6]"));
  EXPECT_THAT(inner.message(), HasSubstr("expected shape [3, 5]"));
  EXPECT_THAT(error(x.view, w.view, blank({4, 4}, {}, DType::f32).view).message(),
              HasSubstr("operand y is F32 [4, 4]"));
  EXPECT_THAT(error(x.view, w.view, blank({5, 3}, {}, DType::f32).view).message(),
              HasSubstr("operand y is F32 [5, 3]"));
  EXPECT_THAT(error(x.view, w.view, y.view, random(DType::f32, {4}).view).message(),
              HasSubstr("operand bias is F32 [4]"));
  EXPECT_THAT(error(x.view, random(DType::f32, {3, 6}, {0, 2}).view, y.view).message(), HasSubstr("contiguous"));
  EXPECT_THAT(error(x.view.slice(0, 0, 0), w.view, y.view.slice(0, 0, 0)).message(), HasSubstr("no empty axis"));
  EXPECT_THAT(error(x.view, random(DType::f32, {6, 6}).view, x.view).message(), HasSubstr("no overlap with operand x"));
}

TEST_P(LinearTest, NamesTheDtypesItLacks) {
  const ConstTensorView x(nullptr, DType::f32, {4, 6});
  const ConstTensorView w(nullptr, DType::f16, {3, 6});
  const TensorView y(nullptr, DType::f32, {4, 3});
  const Error error = catch_error([&] { plan([&](auto& context) { ops::linear(context, x, w, y); }); });
  EXPECT_EQ(error.code(), ErrorCode::not_implemented);
  EXPECT_EQ(error.message(), "linear: operand w has dtype F16, supported: F32, BF16");
}

INSTANTIATE_TEST_SUITE_P(Devices, LinearTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
