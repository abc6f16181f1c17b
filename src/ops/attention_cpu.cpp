#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "ops/cpu_launch.h"
#include "ops/cpu_ops.h"
#include "ops/onednn.h"
#include "ops/scratch.h"

namespace lamina::ops::cpu {

namespace {

/// Scores of one head that are held at once. Enough queries for oneDNN to reach its rate at a few thousand keys.
constexpr std::size_t kScoreBytes = 2 * kMiB;
/// Causal chunks skip the keys behind their last query, so shorter ones waste less.
constexpr std::int64_t kCausalQueries = 128;

struct Operands {
  ConstTensorView q;
  ConstTensorView k;
  ConstTensorView v;
  TensorView out;
  AttentionOptions options;
};

/// Queries [begin, end) of every head, and the keys [0, keys) that any of them sees.
struct Chunk {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t keys;
  std::shared_ptr<const onednn::Primitive> scores;
  std::shared_ptr<const onednn::Primitive> softmax;
  std::shared_ptr<const onednn::Primitive> values;

  std::int64_t queries() const { return end - begin; }
};

std::shared_ptr<const onednn::Primitive> scores_primitive(const Operands& operands, std::int64_t queries,
                                                          std::int64_t keys) {
  const std::int64_t features = operands.q.size(2);
  const std::int64_t q_stride = operands.q.stride(0);
  const std::int64_t k_stride = operands.k.stride(0);
  const float scale = operands.options.scale;
  return onednn::cached("attention scores",
                        {queries, keys, features, q_stride, k_stride, std::bit_cast<std::int32_t>(scale)}, [&] {
                          dnnl::primitive_attr attributes = onednn::user_scratchpad();
                          attributes.set_output_scales(0, {scale});
                          const dnnl::matmul::desc operation(onednn::matrix({queries, features}, {q_stride, 1}),
                                                             onednn::matrix({features, keys}, {1, k_stride}),
                                                             onednn::matrix({queries, keys}, {keys, 1}));
                          return dnnl::matmul::primitive_desc(operation, attributes, onednn::engine());
                        });
}

std::shared_ptr<const onednn::Primitive> softmax_primitive(std::int64_t queries, std::int64_t keys) {
  return onednn::cached("attention softmax", {queries, keys}, [&] {
    const dnnl::softmax_forward::desc operation(dnnl::prop_kind::forward_inference,
                                                onednn::matrix({queries, keys}, {keys, 1}), 1);
    return dnnl::softmax_forward::primitive_desc(operation, onednn::user_scratchpad(), onednn::engine());
  });
}

std::shared_ptr<const onednn::Primitive> values_primitive(const Operands& operands, std::int64_t queries,
                                                          std::int64_t keys) {
  const std::int64_t features = operands.v.size(2);
  const std::int64_t v_stride = operands.v.stride(0);
  const std::int64_t out_stride = operands.out.stride(0);
  return onednn::cached("attention values", {queries, keys, features, v_stride, out_stride}, [&] {
    const dnnl::matmul::desc operation(onednn::matrix({queries, keys}, {keys, 1}),
                                       onednn::matrix({keys, features}, {v_stride, 1}),
                                       onednn::matrix({queries, features}, {out_stride, 1}));
    return dnnl::matmul::primitive_desc(operation, onednn::user_scratchpad(), onednn::engine());
  });
}

std::int64_t queries_per_chunk(std::int64_t queries, std::int64_t keys, bool causal) {
  const auto row_bytes = static_cast<std::size_t>(keys) * sizeof(float);
  const auto room = static_cast<std::int64_t>(kScoreBytes / row_bytes);
  return chunk_length(queries, causal ? std::min(room, kCausalQueries) : room);
}

std::vector<Chunk> plan_chunks(const Operands& operands) {
  const bool causal = operands.options.causal;
  const std::int64_t queries = operands.q.size(0);
  const std::int64_t visible = operands.options.valid_keys.value_or(operands.k.size(0));
  const std::int64_t step = queries_per_chunk(queries, operands.k.size(0), causal);
  std::vector<Chunk> chunks;
  for (std::int64_t begin = 0; begin < queries; begin += step) {
    const std::int64_t end = std::min(begin + step, queries);
    const std::int64_t keys = causal ? std::min(end, visible) : visible;
    chunks.push_back({begin, end, keys, scores_primitive(operands, end - begin, keys),
                      softmax_primitive(end - begin, keys), values_primitive(operands, end - begin, keys)});
  }
  return chunks;
}

void hide_later_keys(const Chunk& chunk, float* scores) {
  for (std::int64_t query = chunk.begin; query < chunk.end; ++query, scores += chunk.keys) {
    const std::int64_t visible = std::min(query + 1, chunk.keys);
    std::fill(scores + visible, scores + chunk.keys, -std::numeric_limits<float>::infinity());
  }
}

/// The bytes of one head's features at one token.
template <typename View>
auto* at(const View& view, std::int64_t token, std::int64_t head) {
  return view.slice(0, token, token + 1).slice(1, head, head + 1).data();
}

void run_head(const Operands& operands, const Chunk& chunk, std::int64_t head, float* scores, std::byte* scratchpad) {
  const std::int64_t kv_head = head / (operands.q.size(1) / operands.k.size(1));
  auto* score_bytes = reinterpret_cast<std::byte*>(scores);
  chunk.scores->run(scratchpad, {onednn::input(DNNL_ARG_SRC, at(operands.q, chunk.begin, head)),
                                 onednn::input(DNNL_ARG_WEIGHTS, at(operands.k, 0, kv_head)),
                                 {DNNL_ARG_DST, score_bytes}});
  if (operands.options.causal) hide_later_keys(chunk, scores);
  chunk.softmax->run(scratchpad, {{DNNL_ARG_SRC, score_bytes}, {DNNL_ARG_DST, score_bytes}});
  chunk.values->run(scratchpad, {{DNNL_ARG_SRC, score_bytes},
                                 onednn::input(DNNL_ARG_WEIGHTS, at(operands.v, 0, kv_head)),
                                 {DNNL_ARG_DST, at(operands.out, chunk.begin, head)}});
}

}  // namespace

void attention(OpContext& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
               const TensorView& out, const AttentionOptions& options) {
  const Operands operands{q, k, v, out, options};
  std::vector<Chunk> chunks = plan_chunks(operands);

  std::size_t score_bytes = 0;
  std::size_t scratchpad_bytes = 0;
  for (const Chunk& chunk : chunks) {
    score_bytes = std::max(score_bytes, static_cast<std::size_t>(chunk.queries() * chunk.keys) * sizeof(float));
    scratchpad_bytes = std::max({scratchpad_bytes, chunk.scores->scratchpad_bytes(), chunk.softmax->scratchpad_bytes(),
                                 chunk.values->scratchpad_bytes()});
  }
  Scratch scratch;
  const std::size_t scores = scratch.add(score_bytes);
  const std::size_t scratchpad = scratch.add(scratchpad_bytes);
  scratch.obtain(context);

  cpu_launch(context, "attention", {q, k, v}, {out}, scratch.range(), [=, chunks = std::move(chunks)] {
    for (std::int64_t head = 0; head < operands.q.size(1); ++head) {
      for (const Chunk& chunk : chunks) run_head(operands, chunk, head, scratch.floats(scores), scratch.at(scratchpad));
    }
  });
}

}  // namespace lamina::ops::cpu
