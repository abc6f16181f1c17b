#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/error.h"
#include "ops/cuda_launch.h"
#include "ops/cuda_ops.h"
#include "ops/pack_cuda.cuh"
#include "ops/sum_cuda.cuh"

namespace lamina::ops::cuda {

namespace {

template <typename T, typename Weight>
struct Heads {
  T* first;
  std::int64_t token_stride;
  std::int64_t head_stride;
  int count;
  const Weight* weight;
};

template <typename T, typename Weight>
struct Arguments {
  Heads<T, Weight> q;
  Heads<T, Weight> k;
  const float* cos;
  const float* sin;
  float epsilon;
  float share;     ///< of a feature in a head's mean
  int half;        ///< pairs of a head
  int lanes_log2;  ///< of the threads that share a head, up to a warp
};

/// `kCount` adjacent pairs of a head, which one thread turns.
template <int kCount>
struct Pairs {
  Floats<kCount> first;
  Floats<kCount> second;
};

template <RopePairs kind, int kCount, typename T>
__device__ Pairs<kCount> load_pairs(const T* head, int index, int half) {
  if constexpr (kind == RopePairs::half_split) {
    return {load<kCount>(head + index), load<kCount>(head + half + index)};
  } else {
    const Floats<2 * kCount> features = load<2 * kCount>(head + 2 * index);
    Pairs<kCount> pairs;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      pairs.first[i] = features[2 * i];
      pairs.second[i] = features[2 * i + 1];
    }
    return pairs;
  }
}

template <RopePairs kind, int kCount, typename T>
__device__ void store_pairs(T* head, int index, int half, const Pairs<kCount>& pairs) {
  if constexpr (kind == RopePairs::half_split) {
    store<kCount>(head + index, pairs.first);
    store<kCount>(head + half + index, pairs.second);
  } else {
    Floats<2 * kCount> features;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      features[2 * i] = pairs.first[i];
      features[2 * i + 1] = pairs.second[i];
    }
    store<2 * kCount>(head + 2 * index, features);
  }
}

/// One thread's share of a head: `kParts` times `kCount` adjacent pairs. What the head does not reach is zero, so that
/// arithmetic needs no checks.
template <RopePairs kind, int kCount, int kParts>
class HeadPart {
 public:
  __device__ HeadPart(int half, int lane, int lanes_log2) : half_(half), lane_(lane), lanes_log2_(lanes_log2) {}

  template <typename T>
  __device__ void load_from(const T* head) {
    for_each_present([&](int part, int index) { pairs_[part] = load_pairs<kind, kCount>(head, index, half_); });
  }

  template <typename T>
  __device__ void store_to(T* head) {
    for_each_present([&](int part, int index) { store_pairs<kind>(head, index, half_, pairs_[part]); });
  }

  __device__ float squares() {
    float sum = 0;
#pragma unroll
    for (const auto& [first, second] : pairs_) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum += first[i] * first[i] + second[i] * second[i];
    }
    return sum;
  }

  __device__ void scale(float factor, const HeadPart& weights) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const auto& [weight_first, weight_second] = weights.pairs_[part];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        pairs_[part].first[i] *= factor * weight_first[i];
        pairs_[part].second[i] *= factor * weight_second[i];
      }
    }
  }

  /// `rotation` has the cosines as first, the sines as second of each pair.
  __device__ void turn(const HeadPart& rotation) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      auto& [first, second] = pairs_[part];
      const auto& [cos, sin] = rotation.pairs_[part];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float a = first[i];
        const float b = second[i];
        first[i] = a * cos[i] - b * sin[i];
        second[i] = b * cos[i] + a * sin[i];
      }
    }
  }

  __device__ void load_rotation(const float* cos, const float* sin) {
    for_each_present([&](int part, int index) {
      pairs_[part] = {load<kCount>(cos + index), load<kCount>(sin + index)};
    });
  }

 private:
  /// Calls visit(part, index of its first pair) for each part that the head reaches.
  template <typename Visit>
  __device__ void for_each_present(Visit visit) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int index = (lane_ + (part << lanes_log2_)) * kCount;
      if (index < half_) visit(part, index);
    }
  }

  int half_;
  int lane_;
  int lanes_log2_;
  Pairs<kCount> pairs_[kParts] = {};
};

template <typename T, typename Weight>
struct Head {
  T* features;
  const Weight* weight;
  bool exists;
};

template <typename T, typename Weight>
__device__ Head<T, Weight> head_of(const Heads<T, Weight>& heads, std::int64_t token, int head) {
  return {heads.first + token * heads.token_stride + head * heads.head_stride, heads.weight, head < heads.count};
}

/// Heads of one thread whose loads are under way at once.
constexpr int kHeadsAtOnce = 4;

/// One block a token. Its groups of `lanes` threads take heads in turn, queries before keys, while cosines and sines
/// stay in registers. All threads of a warp take equally many turns.
template <RopePairs kind, int kCount, int kParts, typename T, typename Weight>
__global__ void qk_norm_rope_kernel(const __grid_constant__ Arguments<T, Weight> of) {
  using Part = HeadPart<kind, kCount, kParts>;
  const int lanes = 1 << of.lanes_log2;
  const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  const int group = static_cast<int>(threadIdx.x) >> of.lanes_log2;
  const int groups = static_cast<int>(blockDim.x) >> of.lanes_log2;
  const std::int64_t token = blockIdx.x;
  const Part empty(of.half, lane, of.lanes_log2);
  Part rotation = empty;
  rotation.load_rotation(of.cos + token * of.half, of.sin + token * of.half);

  for (int done = 0; done < of.q.count + of.k.count; done += groups * kHeadsAtOnce) {
    const auto head = [&](int i) {
      const int number = done + i * groups + group;
      return number < of.q.count ? head_of(of.q, token, number) : head_of(of.k, token, number - of.q.count);
    };
    Part parts[kHeadsAtOnce] = {empty, empty, empty, empty};
#pragma unroll
    for (int i = 0; i < kHeadsAtOnce; ++i) {
      if (head(i).exists) parts[i].load_from(head(i).features);
    }
#pragma unroll
    for (int i = 0; i < kHeadsAtOnce; ++i) {
      const Head<T, Weight> now = head(i);
      const float squares = group_sum(now.exists ? parts[i].squares() : 0.0F, lanes);
      if (!now.exists) continue;
      Part weight = empty;
      weight.load_from(now.weight);
      parts[i].scale(rsqrtf(squares * of.share + of.epsilon), weight);
      parts[i].turn(rotation);
      parts[i].store_to(now.features);
    }
  }
}

constexpr int kMostPairs = 8;  // of one head, in one thread's registers

template <typename T, typename Weight>
Heads<T, Weight> heads_of(const TensorView& x, const ConstTensorView& weight) {
  return {x.as<T>(), x.stride(0), x.stride(1), static_cast<int>(x.size(1)), weight.as<Weight>()};
}

/// Calls launch.operator()<adjacent pairs, parts of a head>(threads that share a head).
template <int kCount, typename Launch>
void with_parts(std::int64_t half, Launch launch) {
  const std::int64_t shares = ceil_div(half, kCount);
  const int lanes = power_of_two_from(shares, kWarpThreads);
  if (shares <= kWarpThreads)
    launch.template operator()<kCount, 1>(lanes);
  else
    launch.template operator()<kCount, kMostPairs / kCount>(lanes);
}

template <RopePairs kind, typename T, typename Weight>
void enqueue(cudaStream_t stream, const TensorView& q, const TensorView& k, const QkNorm& norm,
             const Rotation& rotation) {
  constexpr int kMostThreads = 256;
  const std::int64_t half = q.size(2) / 2;
  const auto launch = [&]<int kCount, int kParts>(int lanes) {
    const Arguments<T, Weight> of{heads_of<T, Weight>(q, norm.q),
                                  heads_of<T, Weight>(k, norm.k),
                                  rotation.cos.as<float>(),
                                  rotation.sin.as<float>(),
                                  norm.epsilon,
                                  1.0F / static_cast<float>(2 * half),
                                  static_cast<int>(half),
                                  std::countr_zero(static_cast<unsigned>(lanes))};
    const std::int64_t groups = ceil_div(q.size(1) + k.size(1), kHeadsAtOnce);
    const std::int64_t threads =
        std::min<std::int64_t>(ceil_div(groups * lanes, kWarpThreads) * kWarpThreads, kMostThreads);
    qk_norm_rope_kernel<kind, kCount, kParts>
        <<<static_cast<unsigned>(q.size(0)), static_cast<unsigned>(threads), 0, stream>>>(of);
  };
  constexpr int kCount = kVectorBytes / sizeof(T) / 2;
  const bool in_vectors =
      all_in_packs({q, k, norm.q, norm.k}, 2 * kCount) && all_in_packs({rotation.cos, rotation.sin}, kCount);
  if (in_vectors)
    with_parts<kCount>(half, launch);
  else
    with_parts<1>(half, launch);
}

}  // namespace

void qk_norm_rope(OpContext& context, const TensorView& q, const TensorView& k, const QkNorm& norm,
                  const Rotation& rotation) {
  constexpr std::int64_t kMostFeatures = 2 * kWarpThreads * kMostPairs;
  if (q.size(2) > kMostFeatures)
    fail(ErrorCode::not_implemented, "qk_norm_rope: heads of {} features, at most {} are supported on CUDA", q.size(2),
         kMostFeatures);
  cuda_launch(context, "qk_norm_rope", {q, k, norm.q, norm.k, rotation.cos, rotation.sin}, {q, k}, {},
              [&](cudaStream_t stream) {
                with_element(q.dtype(), [&](auto element) {
                  with_element(norm.q.dtype(), [&](auto weight) {
                    using T = decltype(element);
                    using Weight = decltype(weight);
                    if (rotation.pairs == RopePairs::interleaved)
                      enqueue<RopePairs::interleaved, T, Weight>(stream, q, k, norm, rotation);
                    else
                      enqueue<RopePairs::half_split, T, Weight>(stream, q, k, norm, rotation);
                  });
                });
              });
}

}  // namespace lamina::ops::cuda
