#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "ops/attention_cuda.h"
#include "ops/cuda_launch.h"
#include "ops/product_cuda.h"
#include "ops/scratch.h"
#include "ops/softmax_cuda.h"

namespace lamina::ops::cuda {

namespace {

/// Scores (f32) and probabilities (of the activations' dtype; f32 ones take the scores' place) held at once.
constexpr std::size_t kScoreBytes = 256 * kMiB;
/// Causal chunks skip the keys behind their last query, so shorter ones waste less.
constexpr std::int64_t kCausalQueries = 512;
/// Rows of scores start on whole vectors of either dtype.
constexpr std::size_t kRowElements = 8;

std::int64_t row_elements(std::int64_t keys) {
  return static_cast<std::int64_t>(align_up(static_cast<std::size_t>(keys), kRowElements));
}

/// Queries [begin, end) of every head, and the keys [0, keys) that any of them sees.
///
/// Query heads that share a key head are its members: the products of member i of all key heads are one batch.
struct Chunk {
  Chunk(const AttentionOperands& operands, std::int64_t first, std::int64_t last);

  std::int64_t queries() const { return end - begin; }

  std::int64_t begin;
  std::int64_t end;
  std::int64_t keys;
  Product scores;
  Product values;
};

std::int64_t members(const AttentionOperands& operands) {
  return operands.q.size(1) / operands.k.size(1);
}

/// Of q or out, [tokens, heads, features]: the queries of one member of every key head.
Matrix member_of(const AttentionOperands& operands, const ConstTensorView& view, std::int64_t queries) {
  return {view.dtype(), queries, view.size(2), view.stride(0), members(operands) * view.stride(1)};
}

Matrix key_heads_of(const ConstTensorView& view, std::int64_t keys) {
  return {view.dtype(), keys, view.size(2), view.stride(0), view.stride(1)};
}

Matrix score_rows(const AttentionOperands& operands, DType dtype, std::int64_t queries, std::int64_t keys) {
  const std::int64_t row = row_elements(keys);
  return {dtype, queries, keys, row, members(operands) * queries * row};
}

Product scores_product(const AttentionOperands& operands, std::int64_t queries, std::int64_t keys) {
  return Product({.a = member_of(operands, operands.q, queries),
                  .b = key_heads_of(operands.k, keys),
                  .b_layout = ProductShape::B::columns_by_inner,
                  .d = score_rows(operands, DType::f32, queries, keys),
                  .batches = operands.k.size(1)});
}

Product values_product(const AttentionOperands& operands, std::int64_t queries, std::int64_t keys) {
  return Product({.a = score_rows(operands, operands.q.dtype(), queries, keys),
                  .b = key_heads_of(operands.v, keys),
                  .b_layout = ProductShape::B::inner_by_columns,
                  .d = member_of(operands, operands.out, queries),
                  .batches = operands.k.size(1)});
}

Chunk::Chunk(const AttentionOperands& operands, std::int64_t first, std::int64_t last)
    : begin(first),
      end(last),
      keys(operands.causal ? std::min(last, operands.k.size(0)) : operands.k.size(0)),
      scores(scores_product(operands, last - first, keys)),
      values(values_product(operands, last - first, keys)) {}

std::size_t probability_bytes(const AttentionOperands& operands) {
  return operands.q.dtype() == DType::f32 ? 0 : size_of(operands.q.dtype());
}

std::vector<Chunk> plan_chunks(const AttentionOperands& operands) {
  const std::int64_t queries = operands.q.size(0);
  const auto elements = static_cast<std::size_t>(operands.q.size(1) * row_elements(operands.k.size(0)));
  const std::size_t query_bytes = elements * (sizeof(float) + probability_bytes(operands));
  const auto room = static_cast<std::int64_t>(kScoreBytes / query_bytes);
  const std::int64_t step = chunk_length(queries, operands.causal ? std::min(room, kCausalQueries) : room);
  std::vector<Chunk> chunks;
  for (std::int64_t begin = 0; begin < queries; begin += step)
    chunks.emplace_back(operands, begin, std::min(begin + step, queries));
  return chunks;
}

struct Workspace {
  std::byte* products;
  std::byte* scores;
  std::byte* probabilities;
};

template <typename View>
auto* at(const View& view, std::int64_t token, std::int64_t head) {
  return view.slice(0, token, token + 1).slice(1, head, head + 1).data();
}

void run_chunk(const AttentionOperands& operands, const Chunk& chunk, const Workspace& workspace, cudaStream_t stream) {
  const std::int64_t row = row_elements(chunk.keys);
  const auto member_elements = static_cast<std::size_t>(chunk.queries() * row);
  const auto member_at = [&](std::byte* base, std::int64_t member, std::size_t element_bytes) {
    return base + static_cast<std::size_t>(member) * member_elements * element_bytes;
  };
  for (std::int64_t member = 0; member < members(operands); ++member) {
    chunk.scores.run_async({.a = at(operands.q, chunk.begin, member),
                            .b = operands.k.data(),
                            .d = member_at(workspace.scores, member, sizeof(float)),
                            .alpha = operands.scale},
                           workspace.products, stream);
  }
  const DType dtype = operands.q.dtype();
  softmax_async(reinterpret_cast<const float*>(workspace.scores), workspace.probabilities, dtype,
                {.heads = operands.q.size(1),
                 .queries = chunk.queries(),
                 .keys = chunk.keys,
                 .row_stride = row,
                 .causal = operands.causal,
                 .first_query = chunk.begin},
                stream);
  for (std::int64_t member = 0; member < members(operands); ++member) {
    chunk.values.run_async({.a = member_at(workspace.probabilities, member, size_of(dtype)),
                            .b = operands.v.data(),
                            .d = at(operands.out, chunk.begin, member)},
                           workspace.products, stream);
  }
}

}  // namespace

void chunked_attention(OpContext& context, const AttentionOperands& operands) {
  const std::vector<Chunk> chunks = plan_chunks(operands);
  std::size_t workspace_bytes = 0;
  std::size_t elements = 0;
  for (const Chunk& chunk : chunks) {
    workspace_bytes = std::max({workspace_bytes, chunk.scores.workspace_bytes(), chunk.values.workspace_bytes()});
    elements =
        std::max(elements, static_cast<std::size_t>(operands.q.size(1) * chunk.queries() * row_elements(chunk.keys)));
  }
  Scratch scratch;  // which starts on 256 bytes, as the workspace must
  const std::size_t products = scratch.add(workspace_bytes);
  const std::size_t scores = scratch.add(elements * sizeof(float));
  const std::size_t probabilities =
      probability_bytes(operands) == 0 ? scores : scratch.add(elements * probability_bytes(operands));
  scratch.obtain(context);
  const Workspace workspace{scratch.at(products), scratch.at(scores), scratch.at(probabilities)};

  cuda_launch(context, "attention", {operands.q, operands.k, operands.v}, {operands.out}, scratch.range(),
              [&](cudaStream_t stream) {
                for (const Chunk& chunk : chunks) run_chunk(operands, chunk, workspace, stream);
              });
}

}  // namespace lamina::ops::cuda
