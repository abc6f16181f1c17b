#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <random>

#include "base/json.h"
#include "base/page_cache.h"
#include "engine/engine_fixture.h"
#include "engine/own_checkpoint.h"
#include "models/flux2/flux2_config.h"

namespace lamina::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Tensors dealt out to three files, and an index; a stale copy of the first stands in another file.
fs::path sharded_model(const fs::path& folder, const OwnedTensors& tensors) {
  fs::path model = model_without_transformer(folder);
  std::vector<OwnedTensors> shards(3);
  Json weight_map = Json::object();
  const auto name = [](std::size_t shard) { return fmt::format("shard-{}.safetensors", shard); };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    shards[i % 3].push_back(tensors[i]);
    weight_map[tensors[i].spec.name] = name(i % 3);
  }
  OwnedTensor stale = tensors.front();
  std::ranges::fill(stale.bytes, std::byte{0x3f});
  shards[1].push_back(stale);
  for (std::size_t shard = 0; shard < 3; ++shard) write_file(model / "transformer" / name(shard), shards[shard]);
  std::ofstream(model / "transformer/diffusion_pytorch_model.safetensors.index.json")
      << Json{{"weight_map", weight_map}}.dump();
  return model;
}

/// q, k and v as one tensor: one behind the other, or head by head.
OwnedTensor fuse(OwnedTensors& tensors, const std::array<std::string, 3>& names, std::string fused, std::int64_t run) {
  const std::array parts{take(tensors, names[0]), take(tensors, names[1]), take(tensors, names[2])};
  const TensorSpec& spec = parts[0].spec;
  const std::size_t row_bytes = spec.size_bytes() / static_cast<std::size_t>(spec.shape[0]);
  OwnedTensor whole{{std::move(fused), spec.dtype, {3 * spec.shape[0], spec.shape[1]}}, {}};
  for (std::int64_t first = 0; first < spec.shape[0]; first += run)
    for (const OwnedTensor& part : parts) {
      const auto begin = part.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first) * row_bytes);
      whole.bytes.insert(whole.bytes.end(), begin,
                         begin + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(run) * row_bytes));
    }
  return whole;
}

OwnedTensor transposed(OwnedTensor tensor) {
  const std::size_t rows = static_cast<std::size_t>(tensor.spec.shape[0]);
  const std::size_t columns = static_cast<std::size_t>(tensor.spec.shape[1]);
  const std::size_t size = size_of(tensor.spec.dtype);
  OwnedTensor result{{tensor.spec.name + "_t", tensor.spec.dtype, {tensor.spec.shape[1], tensor.spec.shape[0]}},
                     std::vector<std::byte>(tensor.bytes.size())};
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      std::memcpy(&result.bytes[(column * rows + row) * size], &tensor.bytes[(row * columns + column) * size], size);
  return result;
}

/// The demo transformer stored in ways that need every adapter: image streams fused head by head, text streams fused
/// one behind the other, output projections transposed.
OwnedTensors regrouped_transformer() {
  OwnedTensors tensors = demo_transformer();
  const Flux2Config config = Flux2Config::read(ConfigReader::read(tiny_shapes() / "transformer/config.json"));
  for (std::int64_t i = 0; i < config.double_blocks; ++i) {
    const std::string attention = fmt::format("transformer_blocks.{}.attn.", i);
    tensors.push_back(fuse(tensors, {attention + "to_q.weight", attention + "to_k.weight", attention + "to_v.weight"},
                           attention + "query_key_value.weight", config.head_dim));
    tensors.push_back(fuse(
        tensors, {attention + "add_q_proj.weight", attention + "add_k_proj.weight", attention + "add_v_proj.weight"},
        attention + "to_added_qkv.weight", config.width()));
  }
  for (std::int64_t i = 0; i < config.single_blocks; ++i)
    tensors.push_back(transposed(take(tensors, fmt::format("single_transformer_blocks.{}.attn.to_out.weight", i))));
  tensors.push_back(transposed(take(tensors, "x_embedder.weight")));
  return tensors;
}

/// The halves of its rows in the other order.
OwnedTensor swapped(OwnedTensor tensor, std::string name) {
  std::ranges::rotate(tensor.bytes, tensor.bytes.begin() + static_cast<std::ptrdiff_t>(tensor.bytes.size() / 2));
  tensor.spec.name = std::move(name);
  return tensor;
}

/// Some of the demo transformer's tensors as the original repository names and orders them.
OwnedTensors originally_named_transformer() {
  const std::string prefix = "model.diffusion_model.";
  OwnedTensors tensors = demo_transformer();
  const auto rename = [&](const std::string& name, const std::string& original) {
    OwnedTensor tensor = take(tensors, name);
    tensor.spec.name = prefix + original;
    tensors.push_back(std::move(tensor));
  };
  const std::string attention = "transformer_blocks.0.attn.";
  const std::int64_t width = 160;
  tensors.push_back(fuse(tensors, {attention + "to_q.weight", attention + "to_k.weight", attention + "to_v.weight"},
                         prefix + "double_blocks.0.img_attn.qkv.weight", width));
  tensors.push_back(
      fuse(tensors, {attention + "add_q_proj.weight", attention + "add_k_proj.weight", attention + "add_v_proj.weight"},
           prefix + "double_blocks.0.txt_attn.qkv.weight", width));
  rename("transformer_blocks.1.ff_context.linear_in.weight", "double_blocks.1.txt_mlp.0.weight");
  rename("transformer_blocks.1.attn.norm_added_k.weight", "double_blocks.1.txt_attn.norm.key_norm.scale");
  rename("single_transformer_blocks.2.attn.to_out.weight", "single_blocks.2.linear2.weight");
  rename("context_embedder.weight", "txt_in.weight");
  tensors.push_back(swapped(take(tensors, "norm_out.linear.weight"), prefix + "final_layer.adaLN_modulation.1.weight"));
  return tensors;
}

OffloadOptions streamed(HostBackingChoice backing) {
  return {.stream = true, .ring_slots = 2, .host_backing = backing, .poison_released = true};
}

const GenerateResult& private_result() {
  static const GenerateResult result =
      make_generator(tiny_shapes(), streamed(HostBackingChoice::private_pages))->generate(small_request());
  return result;
}

void expect_same(const GenerateResult& result) {
  EXPECT_EQ(result.picture.rgb, private_result().picture.rgb);
  EXPECT_EQ(tensor_of(result, "latents").values, tensor_of(private_result(), "latents").values);
}

Json configuration_of(const GenerateResult& result) {
  return parse_json(result.report_json, "report")["configuration"];
}

void expect_mapped(const GenerateResult& result) {
  expect_same(result);
  EXPECT_EQ(configuration_of(result)["host_backing"], "checkpoint mmap");
  EXPECT_TRUE(configuration_of(result)["host_backing_reason"].is_null());
}

GenerateResult run(const fs::path& model, HostBackingChoice backing) {
  return make_generator(model, streamed(backing))->generate(small_request());
}

TEST(HostBacking, MappedPictureIsThePrivateOneAndPinsLess) {
  const auto mapped = make_generator(tiny_shapes(), streamed(HostBackingChoice::automatic));
  const auto own = make_generator(tiny_shapes(), streamed(HostBackingChoice::private_pages));
  EXPECT_LT(mapped->device().pinned_bytes(), own->device().pinned_bytes());
  for (int picture = 0; picture < 3; ++picture) expect_mapped(mapped->generate(small_request()));
  const Json configuration = configuration_of(own->generate(small_request()));
  EXPECT_EQ(configuration["host_backing"], "private pinned");
  EXPECT_EQ(configuration["host_backing_refusal"], "not_asked_for");
}

TEST(HostBacking, ShardsAndStaleCopiesChangeNothing) {
  const ScratchFolder folder;
  const fs::path model = sharded_model(folder.path(), demo_transformer());
  expect_mapped(run(model, HostBackingChoice::mapped));
  expect_same(run(model, HostBackingChoice::private_pages));
}

TEST(HostBacking, OtherGroupingsAreAdaptedAlikeInBothPathsAndWithoutOffload) {
  const ScratchFolder folder;
  const fs::path model = model_of(folder.path(), regrouped_transformer());
  expect_mapped(run(model, HostBackingChoice::mapped));
  expect_same(run(model, HostBackingChoice::private_pages));
  expect_same(make_generator(model, {})->generate(small_request()));
}

TEST(HostBacking, NamesOfTheOriginalRepositoryAreRead) {
  const ScratchFolder folder;
  const fs::path model = model_of(folder.path(), originally_named_transformer());
  expect_mapped(run(model, HostBackingChoice::mapped));
  expect_same(run(model, HostBackingChoice::private_pages));
}

/// One of two norms that are read together.
TEST(HostBacking, ANormStoredInAnotherDtypeThanItsPartnerIsCast) {
  for (const std::string name :
       {"transformer_blocks.0.attn.norm_q.weight", "transformer_blocks.1.attn.norm_added_k.weight",
        "single_transformer_blocks.2.attn.norm_k.weight"}) {
    SCOPED_TRACE(name);
    const ScratchFolder folder;
    OwnedTensors tensors = demo_transformer();
    OwnedTensor norm = take(tensors, name);
    ASSERT_EQ(norm.spec.dtype, DType::bf16);
    std::vector<std::byte> wide;
    for (std::size_t i = 0; i < norm.bytes.size(); i += 2) {
      wide.insert(wide.end(), 2, std::byte{0});  // bf16 is the upper half of an f32
      wide.insert(wide.end(), {norm.bytes[i], norm.bytes[i + 1]});
    }
    tensors.push_back({{name, DType::f32, norm.spec.shape}, wide});
    const fs::path model = model_of(folder.path(), tensors);
    expect_mapped(run(model, HostBackingChoice::mapped));
    expect_same(run(model, HostBackingChoice::private_pages));
  }
}

TEST(HostBacking, TensorsThatNobodyReadsAreMappedOver) {
  const ScratchFolder folder;
  OwnedTensors tensors = demo_transformer();
  tensors.push_back({{"ema.decay", DType::f32, {1}}, std::vector<std::byte>(4)});
  tensors.push_back({{"nothing", DType::bf16, {0, 4}}, {}});
  expect_mapped(run(model_of(folder.path(), tensors), HostBackingChoice::mapped));
}

TEST(HostBacking, ColdAndWarmPagesGiveTheSamePicture) {
  const ScratchFolder folder;
  const fs::path model = model_of(folder.path(), demo_transformer());
  const fs::path file = model / "transformer" / kTransformerFile;
  const auto generator = make_generator(model, streamed(HostBackingChoice::mapped));
  for (const bool cold : {true, false, true}) {
    if (cold && !testing::drop_pages(file)) GTEST_SKIP() << "this file system keeps all pages";
    EXPECT_EQ(testing::resident_share(file) < 0.5, cold);
    expect_mapped(generator->generate(small_request()));
    EXPECT_GT(testing::resident_share(file), 0.99);
  }
}

/// One row per reason for not mapping the demo model.
struct RefusalRow {
  const char* name;
  std::string reason;  ///< part of the sentence
  std::function<void(LoadFacts&)> change;
  std::function<void(OwnedTensors&)> store;
};

class Refusals : public ::testing::TestWithParam<RefusalRow> {};

INSTANTIATE_TEST_SUITE_P(
    HostBacking, Refusals,
    ::testing::Values(
        RefusalRow{"tensor_parallel",
                   "tensor parallelism over 2 ranks",
                   [](LoadFacts& facts) { facts.tensor_parallel_size = 2; },
                   {}},
        RefusalRow{"shared_file",
                   "tensor \"vae.decoder.conv_in.weight\" is of component 'vae'",
                   {},
                   [](OwnedTensors& tensors) {
                     tensors.push_back({{"vae.decoder.conv_in.weight", DType::f32, {2}}, std::vector<std::byte>(8)});
                   }},
        RefusalRow{"shared_file_empty_tensor",
                   "tensor \"text_encoder.empty\" is of component 'text_encoder'",
                   {},
                   [](OwnedTensors& tensors) {
                     tensors.push_back({{"text_encoder.empty", DType::bf16, {0, 4}}, {}});
                   }}),
    [](const auto& row) { return row.param.name; });

TEST_P(Refusals, FallBackWithTheReasonAndTheRightPicture) {
  const RefusalRow& row = GetParam();
  const ScratchFolder folder;
  OwnedTensors tensors = demo_transformer();
  if (row.store) row.store(tensors);
  const fs::path model = model_of(folder.path(), tensors);
  OffloadOptions options = streamed(HostBackingChoice::automatic);
  if (row.change) row.change(options.load);

  const GenerateResult result = make_generator(model, options)->generate(small_request());
  expect_same(result);
  const Json configuration = configuration_of(result);
  EXPECT_EQ(configuration["host_backing"], "private pinned");
  EXPECT_THAT(std::string(row.name), ::testing::StartsWith(configuration["host_backing_refusal"].get<std::string>()));
  EXPECT_THAT(configuration["host_backing_reason"].get<std::string>(), HasSubstr(row.reason));

  options.host_backing = HostBackingChoice::mapped;
  EXPECT_THAT([&] { make_generator(model, options); }, ThrowsMessage<Error>(HasSubstr(row.reason)));
}

TEST(HostBacking, SlowPackingChangesTimeNotBytesAndIsNamedAsTheReasonOfTheStall) {
  CpuDeviceOptions device;
  device.faults.delay = [](std::string_view stream, std::string_view work) {
    return std::chrono::milliseconds(stream == "packer" && work == "pack weights" ? 20 : 0);
  };
  const auto generator = make_generator(tiny_shapes(), streamed(HostBackingChoice::mapped), std::move(device));
  expect_mapped(generator->generate(small_request()));
  const StageReport& denoise = stage_of(*generator, "denoise");
  std::chrono::nanoseconds packing{0};
  std::chrono::nanoseconds packing_stall{0};
  for (const UnitStatistics& unit : denoise.statistics.units[0]) {
    packing += unit.packing;
    packing_stall += unit.packing_stall;
    EXPECT_LE(unit.packing_stall, unit.stall);
  }
  const auto fetches = static_cast<std::int64_t>(denoise.passes * denoise.statistics.units[0].size());
  EXPECT_GE(packing, std::chrono::milliseconds(20) * fetches);
  EXPECT_GT(packing_stall.count(), denoise.statistics.stall.count() / 2);
}

TEST(HostBacking, RandomDelaysOfThePackerChangeNoByte) {
  auto random = std::make_shared<std::mt19937>(11);
  auto mutex = std::make_shared<std::mutex>();
  CpuDeviceOptions device;
  device.faults.delay = [=](std::string_view stream, std::string_view) {
    const std::lock_guard lock(*mutex);
    return std::chrono::microseconds(stream == "packer" ? (*random)() % 6000 : 0);
  };
  const auto generator = make_generator(tiny_shapes(), streamed(HostBackingChoice::mapped), std::move(device));
  expect_mapped(generator->generate(small_request()));
}

TEST(HostBacking, AFileCutOrWrittenWhileInUseIsAnErrorThatNamesIt) {
  for (const bool cut : {true, false}) {
    const ScratchFolder folder;
    const fs::path model = model_of(folder.path(), demo_transformer());
    const fs::path file = model / "transformer" / kTransformerFile;
    const auto generator = make_generator(model, streamed(HostBackingChoice::mapped));
    expect_mapped(generator->generate(small_request()));
    if (cut) {
      ASSERT_EQ(::truncate(file.c_str(), static_cast<off_t>(fs::file_size(file) / 2)), 0);
    } else {
      std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(-4, std::ios::end) << "abcd";
    }
    for (int attempt = 0; attempt < 2; ++attempt)
      EXPECT_THAT([&] { generator->generate(small_request()); },
                  ThrowsMessage<Error>(::testing::AllOf(HasSubstr(file.string()), HasSubstr("while in use"))));
    EXPECT_EQ(generator->device().memory().use().used_bytes, 0U);
  }
}

TEST(HostBacking, AFileReplacedWhileInUseIsReadAsItWas) {
  const ScratchFolder folder;
  const fs::path model = model_of(folder.path(), demo_transformer());
  const auto generator = make_generator(model, streamed(HostBackingChoice::mapped));
  OwnedTensors zeros = demo_transformer();
  for (OwnedTensor& tensor : zeros) std::ranges::fill(tensor.bytes, std::byte{0});
  write_file(model / "transformer" / kTransformerFile, zeros);
  expect_mapped(generator->generate(small_request()));
}

TEST(HostBacking, AFaultBehindATakenPlanIsAFailureToStart) {
  CpuDeviceOptions device;
  device.faults.fail_copy = 1;
  EXPECT_THROW(make_generator(tiny_shapes(), {}, std::move(device)), Error);
}

}  // namespace
}  // namespace lamina::test
