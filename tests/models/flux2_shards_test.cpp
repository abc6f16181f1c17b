#include "models/flux2/flux2_shards.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/config_reader.h"
#include "base/expect_error.h"
#include "models/bind_all.h"
#include "models/device_run.h"
#include "models/flux2/flux2_activations.h"
#include "models/flux2/flux2_transformer.h"
#include "offload/pinned_source.h"
#include "offload/unit_layout.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace lamina {
namespace {

using test::BoundWeights;
using test::DeviceRun;
using test::fixtures_dir;
using test::tiny_shapes_dir;
using ::testing::ElementsAre;
using testing::expect_error;

struct Model {
  Flux2Config config;
  Checkpoint checkpoint;

  Flux2Transformer rank(const TensorParallel& parallel) const {
    return {config, [this](std::string_view name) { return checkpoint.dtype_of(name); }, parallel};
  }
};

/// "tiny-shapes", "micro" (both bf16) or "guidance" (f32).
Model open(const std::string& name) {
  const auto config = [](const std::string& file) { return Flux2Config::read(ConfigReader::read(file)); };
  if (name == "tiny-shapes") {
    const std::string folder = tiny_shapes_dir() + "/transformer";
    return {config(folder + "/config.json"), Checkpoint::open(folder, "diffusion_pytorch_model")};
  }
  return {config(fixtures_dir() + "/" + name + "_config.json"),
          Checkpoint::open_file(fixtures_dir() + "/" + name + "_model.safetensors")};
}

/// Sizes of the klein models.
Flux2Config klein(std::int64_t heads, std::int64_t double_blocks, std::int64_t single_blocks) {
  Flux2Config config;
  config.in_channels = config.out_channels = 128;
  config.text_channels = 3 * 2560;
  config.timestep_channels = 256;
  config.heads = heads;
  config.head_dim = 128;
  config.mlp_width = 3 * config.width();
  config.double_blocks = double_blocks;
  config.single_blocks = single_blocks;
  return config;
}

DType always_bf16(std::string_view) {
  return DType::bf16;
}

// What ranks hold.

/// How the published plan cuts a tensor: an axis, and the groups along it.
struct PublishedCut {
  int axis = -1;  ///< -1: replicated
  std::vector<std::int64_t> groups;
};

PublishedCut published_cut(const std::string& name, std::int64_t d, std::int64_t m) {
  const bool is_single = name.starts_with("single_transformer_blocks.");
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (!is_single && !name.starts_with("transformer_blocks.")) return {};
  if (has("norm")) return {};
  if (has("to_qkv_mlp_proj")) return {0, {d, d, d, m, m}};
  if (has("linear_in")) return {0, {m, m}};
  if (has("linear_out")) return {1, {m}};
  if (has("out")) return is_single ? PublishedCut{1, {d, m}} : PublishedCut{1, {d}};
  return {0, {d}};
}

using Bytes = std::vector<std::byte>;

/// The image of a unit, or of the outside weights, as it arrives on the device.
template <typename Fetch>
Bytes fetched(DeviceRun& run, const std::vector<ParameterGroup>& groups, const Fetch& fetch) {
  const std::size_t size = UnitLayout::of(groups).size_bytes;
  const DeviceBuffer image = run.device().allocate(size, "image");
  const PinnedBuffer host = run.device().allocate_pinned(size, "weights");
  fetch(image.data());
  run.stream().copy_to_host_async(host.data(), image.data(), size, "image");
  run.stream().synchronize();
  return {host.data(), host.data() + size};
}

/// Every member of a rank's plan by its name, cut out of the images of a source.
std::map<std::string, Bytes> members_of(DeviceRun& run, const OffloadPlan& plan, UnitSource& source) {
  std::map<std::string, Bytes> members;
  const auto add = [&](const std::vector<ParameterGroup>& groups, const Bytes& image) {
    const UnitLayout layout = UnitLayout::of(groups);
    for (std::size_t group = 0; group < groups.size(); ++group) {
      auto place = image.begin() + static_cast<std::ptrdiff_t>(layout.group_offsets[group]);
      for (const TensorSpec& member : groups[group].members) {
        const auto end = place + static_cast<std::ptrdiff_t>(member.size_bytes());
        members[member.name] = Bytes(place, end);
        place = end;
      }
    }
  };
  add(plan.outside, fetched(run, plan.outside, [&](std::byte* to) { source.fetch_outside_async(to, run.stream()); }));
  for (std::size_t unit = 0; unit < plan.stacks[0].units.size(); ++unit) {
    const std::vector<ParameterGroup>& groups = plan.stacks[0].units[unit].groups;
    add(groups, fetched(run, groups, [&](std::byte* to) { source.fetch_async({0, unit}, to, run.stream()); }));
  }
  return members;
}

/// The tensor of which the ranks have `parts`, put together an element at a time.
Bytes reassembled(const TensorSpec& stored, const PublishedCut& cut, const std::vector<Bytes>& parts) {
  const std::size_t element = size_of(stored.dtype);
  const std::int64_t columns = stored.shape.rank() == 2 ? stored.shape[1] : 1;
  const auto degree = static_cast<std::int64_t>(parts.size());
  Bytes whole(stored.size_bytes(), std::byte{0});
  for (std::int64_t row = 0; row < stored.shape[0]; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      std::int64_t along = cut.axis == 0 ? row : column;
      std::int64_t local = 0;
      std::size_t group = 0;
      for (; along >= cut.groups[group]; ++group) {
        along -= cut.groups[group];
        local += cut.groups[group] / degree;
      }
      const std::int64_t share = cut.groups[group] / degree;
      local += along % share;
      const std::int64_t index = cut.axis == 0 ? local * columns + column : row * (columns / degree) + local;
      std::memcpy(whole.data() + static_cast<std::size_t>(row * columns + column) * element,
                  parts[static_cast<std::size_t>(along / share)].data() + static_cast<std::size_t>(index) * element,
                  element);
    }
  }
  return whole;
}

struct Group {
  const char* model;
  std::int64_t degree;
};

void PrintTo(const Group& group, std::ostream* out) {
  *out << group.model << " of degree " << group.degree;
}

class Flux2Shards : public ::testing::TestWithParam<Group> {
 protected:
  Model model_ = open(GetParam().model);
  DeviceRun run_;
};

INSTANTIATE_TEST_SUITE_P(All, Flux2Shards,
                         ::testing::Values(Group{"tiny-shapes", 5}, Group{"micro", 2}, Group{"micro", 4},
                                           Group{"micro", 8}, Group{"guidance", 3}));

TEST_P(Flux2Shards, OfAllRanksMakeUpTheCheckpoint) {
  std::map<std::string, std::vector<Bytes>> parts;
  for (std::int64_t rank = 0; rank < GetParam().degree; ++rank) {
    const Flux2Transformer transformer = model_.rank({GetParam().degree, rank});
    std::vector<WeightBinding> bindings;
    for (const TensorSpec& tensor : member_tensors(transformer.plan()))
      bindings.push_back(bind_weight(model_.checkpoint, tensor, {}));
    PinnedSource source(run_.device(), transformer.plan(), bindings);
    for (auto& [name, bytes] : members_of(run_, transformer.plan(), source)) parts[name].push_back(std::move(bytes));
  }
  ASSERT_EQ(parts.size(), model_.checkpoint.tensors().size());
  for (const TensorSpec& stored : model_.checkpoint.tensors()) {
    const std::vector<Bytes>& of_ranks = parts.at(stored.name);
    const ConstTensorView view = model_.checkpoint.view(stored);
    const Bytes whole(view.data(), view.data() + stored.size_bytes());
    const PublishedCut cut = published_cut(stored.name, model_.config.width(), model_.config.mlp_width);
    for (const Bytes& part : of_ranks)
      ASSERT_EQ(part.size() * (cut.axis < 0 ? 1 : of_ranks.size()), whole.size()) << stored.name;
    if (cut.axis < 0)
      EXPECT_THAT(of_ranks, ::testing::Each(whole)) << stored.name;
    else
      EXPECT_EQ(reassembled(stored, cut, of_ranks), whole) << stored.name;
  }
}

TEST_P(Flux2Shards, AreWhatTheParametersOfARankExpect) {
  Flux2Transformer transformer = model_.rank({GetParam().degree, 0});
  const std::vector<ParameterGroup> groups = test::all_groups(transformer.plan());
  std::vector<TensorSpec> stored;
  ASSERT_EQ(groups.size(), transformer.parameters().size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(groups[i].runtime, transformer.parameters()[i]->spec());
    for (std::size_t member = 0; member < groups[i].members.size(); ++member)
      stored.push_back(groups[i].stored(member));
  }
  std::ranges::sort(stored, {}, &TensorSpec::name);
  EXPECT_EQ(stored, model_.checkpoint.tensors());
  const std::int64_t width = model_.config.width();
  const std::int64_t local = width / GetParam().degree;
  EXPECT_EQ(transformer.double_blocks()[0].text.qkv->spec().shape, (Shape{3 * local, width}));
  EXPECT_EQ(transformer.single_blocks()[0].out->spec().shape, (Shape{width, 4 * local}));
}

// What ranks compute.

/// The linear layers of a rank in the order of a block, and between them what works on each feature by itself: for
/// attention stands silu(silu(q) k) v, so that every product needs the features of the same rank, as heads do.
class RankCompute {
 public:
  static constexpr std::int64_t kTokens = 7;

  RankCompute(DeviceRun& run, const std::vector<float>& input, std::int64_t width)
      : run_(run),
        memory_(run.device().allocate(8 * kMiB, "activations")),
        workspace_(run.device().allocate(8 * kMiB, "workspace")),
        arena_(memory_.data(), memory_.size_bytes()),
        context_(run.stream(), workspace_.data(), workspace_.size_bytes()),
        input_(take(width)) {
    run.upload(input, input_);
  }

  std::vector<float> attention_of(const Flux2StreamWeights& weights) {
    const TensorView qkv = linear(input_, *weights.qkv);
    const TensorView mixed = take(qkv.size(1) / 3);
    attend(qkv, mixed);
    return run_.download(linear(mixed, *weights.out));
  }

  std::vector<float> feed_forward_of(const Flux2StreamWeights& weights) {
    const TensorView gate_up = linear(input_, *weights.ff_in);
    const TensorView hidden = take(gate_up.size(1) / 2);
    feed_forward(gate_up, hidden);
    return run_.download(linear(hidden, *weights.ff_out));
  }

  std::vector<float> result_of(const Flux2SingleBlock& weights) {
    const TensorView all = linear(input_, *weights.qkv_mlp);
    const std::int64_t joined = weights.out->spec().shape[1];  // w + m, beside 3 w + 2 m
    const std::int64_t width = all.size(1) - 2 * joined;
    const TensorView mixed = take(joined);
    attend(all.slice(1, 0, 3 * width), mixed.slice(1, 0, width));
    feed_forward(all.slice(1, 3 * width, all.size(1)), mixed.slice(1, width, joined));
    return run_.download(linear(mixed, *weights.out));
  }

 private:
  TensorView take(std::int64_t features) { return arena_.take(DType::f32, {kTokens, features}); }

  TensorView linear(const TensorView& x, const Parameter& weight) {
    const TensorView y = take(weight.spec().shape[0]);
    ops::linear(context_, x, weight.view(), y);
    return y;
  }

  void attend(const TensorView& qkv, const TensorView& mixed) {
    const std::int64_t width = qkv.size(1) / 3;
    ops::silu_mul(context_, qkv.slice(1, 0, width), qkv.slice(1, width, 2 * width), mixed);
    ops::silu_mul(context_, mixed, qkv.slice(1, 2 * width, 3 * width), mixed);
  }

  void feed_forward(const TensorView& gate_up, const TensorView& hidden) {
    const std::int64_t width = gate_up.size(1) / 2;
    ops::silu_mul(context_, gate_up.slice(1, 0, width), gate_up.slice(1, width, 2 * width), hidden);
  }

  DeviceRun& run_;
  DeviceBuffer memory_;
  DeviceBuffer workspace_;
  Arena arena_;
  ops::OpContext context_;
  TensorView input_;
};

/// All branches of the first double and the first single block, as this rank adds to them.
std::vector<std::vector<float>> branches_of(DeviceRun& run, const Model& model, const TensorParallel& parallel) {
  Flux2Transformer transformer = model.rank(parallel);
  const BoundWeights weights(run.device(), run.stream(), model.checkpoint, transformer.plan(),
                             transformer.parameters());
  std::vector<float> input(static_cast<std::size_t>(RankCompute::kTokens * model.config.width()));
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i * i % 1009));
  RankCompute compute(run, input, model.config.width());
  const Flux2DoubleBlock& block = transformer.double_blocks().front();
  return {compute.attention_of(block.image), compute.attention_of(block.text), compute.feed_forward_of(block.image),
          compute.feed_forward_of(block.text), compute.result_of(transformer.single_blocks().front())};
}

TEST_P(Flux2Shards, SumUpToTheWholeModel) {
  const std::vector<std::vector<float>> whole = branches_of(run_, model_, {});
  std::vector<std::vector<float>> sums(whole.size(), std::vector<float>(whole.front().size()));
  for (std::int64_t rank = 0; rank < GetParam().degree; ++rank) {
    const auto parts = branches_of(run_, model_, {GetParam().degree, rank});
    for (std::size_t branch = 0; branch < whole.size(); ++branch)
      std::ranges::transform(sums[branch], parts[branch], sums[branch].begin(), std::plus<>());
  }
  for (std::size_t branch = 0; branch < whole.size(); ++branch) {
    const auto magnitude = [](float a, float b) { return std::abs(a) < std::abs(b); };
    const float largest = std::abs(*std::ranges::max_element(whole[branch], magnitude));
    EXPECT_GT(largest, 1e-3F);
    test::expect_near(sums[branch], whole[branch], 1e-5F * largest, "branch " + std::to_string(branch));
  }
}

TEST_P(Flux2Shards, RunWithTheirGroupOnly) {
  const Flux2Transformer transformer = model_.rank({GetParam().degree, 0});
  Arena arena;
  expect_error(ErrorCode::internal, {"degree " + std::to_string(GetParam().degree) + " in a group of 1"},
               [&] { const Flux2Activations activations(transformer, 5, DType::f32, {}, arena); });
}

// The plan.

TEST(Flux2ShardTable, HasOneEntryForEveryTensorAndNoOther) {
  std::map<std::string_view, std::size_t> uses;
  for (const Flux2ShardEntry& entry : flux2_shard_table()) uses[entry.suffix] = 0;
  EXPECT_EQ(uses.size(), flux2_shard_table().size());
  const Model model = open("guidance");
  for (const TensorSpec& tensor : model.checkpoint.tensors()) {
    std::size_t found = 0;
    for (auto& [suffix, count] : uses) {
      if (!fmt::format(".{}", tensor.name).ends_with(fmt::format(".{}", suffix))) continue;
      ++count;
      ++found;
    }
    EXPECT_EQ(found, 1U) << tensor.name;
  }
  for (const auto& [suffix, count] : uses) EXPECT_GT(count, 0U) << suffix;
}

TEST(Flux2ShardTable, RefusesOtherTensors) {
  for (const char* name : {"transformer_blocks.0.attn.to_q.bias", "attn.into_q.weight", "to_q.weight", ""})
    expect_error(ErrorCode::internal, {"0 rules"}, [&] { flux2_shard_rule(klein(24, 5, 20), name); });
}

TEST(Flux2TensorParallel, BytesOfUnits) {
  struct Case {
    Flux2Config config;
    std::size_t double_mib;  // of the whole model, norms aside
  };
  for (const auto& [config, double_mib] : {Case{klein(24, 5, 20), 468}, Case{klein(32, 8, 24), 832}}) {
    const std::size_t double_bytes = double_mib * kMiB;
    const std::size_t norm = 2 * 128;
    for (const std::int64_t degree : {1, 2, 4}) {
      const Flux2Transformer transformer(config, always_bf16, {degree, degree - 1});
      const auto ranks = static_cast<std::size_t>(degree);
      const std::vector<StreamUnit>& units = transformer.plan().stacks[0].units;
      ASSERT_EQ(units.size(), static_cast<std::size_t>(config.double_blocks + config.single_blocks));
      for (const StreamUnit& unit : units)
        EXPECT_EQ(weight_bytes(unit.groups),
                  unit.list == 0 ? double_bytes / ranks + 4 * norm : double_bytes / 2 / ranks + 2 * norm);
      const Flux2Transformer whole(config, always_bf16);
      EXPECT_EQ(weight_bytes(transformer.plan().outside), weight_bytes(whole.plan().outside));
    }
  }
}

TEST(Flux2TensorParallel, DegreesDivideHeadsAndFeedForward) {
  EXPECT_THAT(flux2_tensor_parallel_degrees(klein(24, 1, 1)), ElementsAre(1, 2, 3, 4, 6, 8, 12, 24));
  EXPECT_THAT(flux2_tensor_parallel_degrees(klein(32, 1, 1)), ElementsAre(1, 2, 4, 8, 16, 32));
  EXPECT_THAT(flux2_tensor_parallel_degrees(klein(48, 1, 1)), ElementsAre(1, 2, 3, 4, 6, 8, 12, 16, 24, 48));
  EXPECT_THAT(flux2_tensor_parallel_degrees(open("tiny-shapes").config), ElementsAre(1, 5));
  Flux2Config config = klein(24, 1, 1);
  config.mlp_width = 8200;  // 2^3 5^2 41
  EXPECT_THAT(flux2_tensor_parallel_degrees(config), ElementsAre(1, 2, 4, 8));
}

TEST(Flux2TensorParallel, RefusesOtherDegrees) {
  for (const std::int64_t degree : {-2, 0, 5, 48})
    expect_error(ErrorCode::incompatible,
                 {"degree " + std::to_string(degree), "24 attention heads", "9216 feed-forward features",
                  "possible are 1, 2, 3, 4, 6, 8, 12, 24"},
                 [&] {
                   const Flux2Transformer transformer(klein(24, 5, 20), always_bf16, {degree, 0});
                 });
}

TEST(Flux2TensorParallel, KnowsTheRanksOfItsGroup) {
  for (const TensorParallel parallel : {TensorParallel{1, 1}, TensorParallel{2, 2}, TensorParallel{2, -1}})
    expect_error(ErrorCode::internal, {"no rank " + std::to_string(parallel.rank)},
                 [&] { const Flux2Transformer transformer(klein(24, 5, 20), always_bf16, parallel); });
}

}  // namespace
}  // namespace lamina
