#include "gpu_memory_bound_ops.h"

#include <fmt/format.h>

#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/group_norm.h"
#include "ops/norm.h"
#include "ops/qk_norm_rope.h"

namespace lamina::bench {

namespace {

constexpr std::int64_t kWidth = 4096;
constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kMlp = 12'288;
constexpr float kEpsilon = 1e-6F;

/// A transformer's activations as it lays them out: rows of | q | k | v | hidden | gate | up |, and the residual.
class Rows {
 public:
  Rows(Tensors& tensors, std::int64_t tokens) : tokens_(tokens) {
    tensors.renew();
    rows_ = tensors.turns({tokens, 4 * kWidth + 2 * kMlp}, 10 * 256 * kMiB);  // of which a line touches a tenth
    residuals_ = tensors.turns({tokens, kWidth});
  }

  std::int64_t tokens() const { return tokens_; }
  TensorView heads(std::size_t call, std::int64_t part) const {
    return columns(call, part * kWidth, kWidth).split_last(kHeadDim);
  }
  TensorView projected(std::size_t call) const { return columns(call, 0, kWidth); }
  TensorView hidden(std::size_t call) const { return columns(call, 3 * kWidth, kWidth); }
  TensorView gate(std::size_t call) const { return columns(call, 4 * kWidth, kMlp); }
  TensorView up(std::size_t call) const { return columns(call, 4 * kWidth + kMlp, kMlp); }
  TensorView residual(std::size_t call) const { return residuals_[call % residuals_.size()]; }

 private:
  TensorView columns(std::size_t call, std::int64_t begin, std::int64_t count) const {
    return rows_[call % rows_.size()].slice(1, begin, begin + count);
  }

  std::int64_t tokens_;
  std::vector<TensorView> rows_;
  std::vector<TensorView> residuals_;
};

/// A line whose time is bytes alone.
Line line(std::string_view name, const Shape& shape, std::vector<ConstTensorView> operands,
          std::function<void(ops::OpContext&, std::size_t)> run) {
  return {fmt::format("{} {}", name, to_string(shape)), 0, std::move(operands), std::move(run)};
}

void add_norms(Table& table, Tensors& tensors, std::int64_t tokens) {
  const Rows rows(tensors, tokens);
  const Shape shape{tokens, kWidth};
  const TensorView vector = tensors.bf16({kWidth});
  const TensorView hidden = rows.hidden(0);
  const TensorView residual = rows.residual(0);
  table.add(line("layer_norm_modulate", shape, {residual, hidden}, [=](ops::OpContext& context, std::size_t call) {
    ops::layer_norm_modulate(context, rows.residual(call), vector, vector, kEpsilon, rows.hidden(call));
  }));
  table.add(line("gated_add_norm_modulate", shape, {hidden, residual, residual, hidden},
                 [=](ops::OpContext& context, std::size_t call) {
                   ops::gated_add_norm_modulate(context, rows.projected(call), vector, rows.residual(call),
                                                {vector, vector, kEpsilon}, rows.hidden(call));
                 }));
  table.add(line("rms_norm", shape, {residual, hidden}, [=](ops::OpContext& context, std::size_t call) {
    ops::rms_norm(context, rows.residual(call), vector, kEpsilon, rows.hidden(call));
  }));
}

void add_rope(Table& table, Tensors& tensors, std::int64_t tokens) {
  const Rows rows(tensors, tokens);
  const ops::QkNorm norm{tensors.bf16({kHeadDim}), tensors.bf16({kHeadDim}), kEpsilon};
  for (const auto pairs : {ops::RopePairs::interleaved, ops::RopePairs::half_split}) {
    const ops::Rotation rotation{tensors.f32({tokens, kHeadDim / 2}), tensors.f32({tokens, kHeadDim / 2}), pairs};
    const TensorView q = rows.heads(0, 0);
    const std::string_view name =
        pairs == ops::RopePairs::interleaved ? "qk_norm_rope, interleaved" : "qk_norm_rope, half split";
    table.add(line(name, {tokens, 2 * kWidth}, {q, q, q, q, rotation.cos, rotation.sin},
                   [=](ops::OpContext& context, std::size_t call) {
                     ops::qk_norm_rope(context, rows.heads(call, 0), rows.heads(call, 1), norm, rotation);
                   }));
  }
}

void add_elementwise(Table& table, Tensors& tensors, std::int64_t tokens) {
  const Rows rows(tensors, tokens);
  const TensorView vector = tensors.bf16({kWidth});
  const TensorView gate = rows.gate(0);
  const TensorView residual = rows.residual(0);
  table.add(line("silu_mul", {tokens, kMlp}, {gate, gate, gate}, [=](ops::OpContext& context, std::size_t call) {
    ops::silu_mul(context, rows.gate(call), rows.up(call), rows.gate(call));
  }));
  table.add(line("gated_add", {tokens, kWidth}, {residual, residual, residual},
                 [=](ops::OpContext& context, std::size_t call) {
                   ops::gated_add(context, rows.projected(call), vector, rows.residual(call));
                 }));
  table.add(
      line("add", {tokens, kWidth}, {residual, residual, residual}, [=](ops::OpContext& context, std::size_t call) {
        ops::add(context, rows.projected(call), rows.residual(call));
      }));
}

/// Reads the image twice: once for its moments.
void add_group_norm(Table& table, Tensors& tensors, const Shape& shape) {
  tensors.renew();
  const TensorView x = tensors.bf16(shape);
  const TensorView y = tensors.bf16(shape);
  const TensorView vector = tensors.bf16({shape[2]});
  const TensorView moments = tensors.f64({1, 2, shape[2]});
  const TensorView normalisation = tensors.f32({3, shape[2]});
  table.add(line("group norm", shape, {x, x, y}, [=](ops::OpContext& context, std::size_t) {
    ops::channel_moments(context, x, moments.reshape({2, shape[2]}));
    ops::group_normalisation(context, moments, shape[0] * shape[1], vector, vector, {32, kEpsilon}, normalisation);
    ops::normalise_channels(context, x, normalisation, ops::Activation::silu, y);
  }));
}

void add_upsampling(Table& table, Tensors& tensors, const Shape& shape) {
  tensors.renew();
  const TensorView x = tensors.bf16(shape);
  const TensorView y = tensors.bf16({2 * shape[0], 2 * shape[1], shape[2]});
  table.add(line("upsample_nearest_2x", shape, {x, y},
                 [=](ops::OpContext& context, std::size_t) { ops::upsample_nearest_2x(context, x, y); }));
}

}  // namespace

void add_memory_bound(Table& table, Tensors& tensors) {
  for (const std::int64_t tokens : {1536, 4608, 16'896}) {
    table.add(copy(tensors, {tokens, kWidth}));
    add_norms(table, tensors, tokens);
    add_rope(table, tensors, tokens);
    add_elementwise(table, tensors, tokens);
  }
  for (const Shape& shape : {Shape{512, 512, 512}, Shape{1024, 1024, 256}, Shape{2048, 2048, 128}})
    add_group_norm(table, tensors, shape);
  for (const Shape& shape : {Shape{256, 256, 512}, Shape{1024, 1024, 256}}) add_upsampling(table, tensors, shape);
}

}  // namespace lamina::bench
