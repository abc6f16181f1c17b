#include "weights/host_weight_plan.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "base/expect_error.h"
#include "base/temporary_folder.h"
#include "weights/coverage.h"
#include "weights/crafted_safetensors.h"

namespace lamina {
namespace {

using testing::crafted_safetensors;
using testing::expect_error;

/// Tensor "ab" of six rows of two bytes 0 .. 11, and "e" without elements.
class HostWeightPlanTest : public ::testing::Test {
 protected:
  HostWeightPlanTest()
      : file_(folder_.write("m.safetensors",
                            crafted_safetensors(R"({"ab":{"dtype":"U8","shape":[6,2],"data_offsets":[0,12]},)"
                                                R"("e":{"dtype":"U8","shape":[0,2],"data_offsets":[12,12]}})",
                                                12))),
        checkpoint_(Checkpoint::open_file(file_)) {}

  /// "a" and "b" are pairs of rows in turn, of which `b_first` is the first of b.
  WeightDemand demand(std::int64_t b_first = 2) const {
    return {"transformer",
            {{"a", DType::u8, {2, 2}}, {"b", DType::u8, {4, 2}}, {"e", DType::u8, {0, 2}}},
            {},
            [=](const std::string& name) -> std::optional<StoredForm> {
              if (name == "a") return StoredForm{"ab", RowRuns{0, 1, 3}, false};
              if (name == "b") return StoredForm{"ab", RowRuns{b_first, 2, 3}, false};
              return std::nullopt;
            }};
  }

  static std::vector<int> pack(const WeightBinding& binding, std::size_t offset, std::size_t size) {
    std::vector<std::byte> bytes(size);
    pack_weight(binding, offset, bytes);
    std::vector<int> values;
    for (const std::byte byte : bytes) values.push_back(std::to_integer<int>(byte));
    return values;
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path file_;
  Checkpoint checkpoint_;
};

TEST_F(HostWeightPlanTest, ProvenFilesAreMappedAndThePlanIsTakenOnce) {
  WeightLoader loader(checkpoint_, demand(1), {});
  const HostWeightPlan plan = loader.take_host_weight_plan();
  EXPECT_EQ(plan.backing, HostBacking::checkpoint_mmap);
  EXPECT_EQ(plan.refusal, MappingRefusal::none);
  EXPECT_EQ(plan.reason, "");
  ASSERT_EQ(plan.bindings.size(), 3u);
  EXPECT_EQ(pack(plan.bindings[0], 0, 4), (std::vector<int>{0, 1, 6, 7}));
  EXPECT_EQ(pack(plan.bindings[1], 0, 8), (std::vector<int>{2, 3, 4, 5, 8, 9, 10, 11}));
  EXPECT_EQ(pack(plan.bindings[1], 3, 2), (std::vector<int>{5, 8}));
  EXPECT_TRUE(pack(plan.bindings[2], 0, 0).empty());
  expect_error(ErrorCode::internal, {"taken twice"}, [&] { loader.take_host_weight_plan(); });
}

TEST_F(HostWeightPlanTest, TheFirstFailedProofIsTheReason) {
  struct Row {
    MappingRefusal refusal;
    LoadFacts facts;
  };
  const std::vector<Row> rows{
      {MappingRefusal::ordinary_component, {.may_map = false, .is_transformer = false}},
      {MappingRefusal::not_asked_for, {.may_map = false, .tensor_parallel_size = 2}},
      {MappingRefusal::tensor_parallel, {.tensor_parallel_size = 2}},
  };
  for (const Row& row : rows) {
    const HostWeightPlan plan = WeightLoader(checkpoint_, demand(1), row.facts).take_host_weight_plan();
    EXPECT_EQ(to_string(plan.refusal), to_string(row.refusal));
    EXPECT_EQ(plan.backing, HostBacking::private_pinned);
    EXPECT_NE(plan.reason, "");
    EXPECT_EQ(plan.bindings.size(), 3u);
  }
}

TEST_F(HostWeightPlanTest, TensorsThatNobodyReadsAreMappedOver) {
  WeightDemand less = demand(1);
  less.tensors.pop_back();
  EXPECT_EQ(WeightLoader(checkpoint_, less, {}).take_host_weight_plan().refusal, MappingRefusal::none);
}

TEST_F(HostWeightPlanTest, AFileThatAnotherComponentReadsIsNotMapped) {
  const std::filesystem::path link = folder_.path() / "vae.safetensors";
  std::filesystem::create_symlink(file_, link);
  const Checkpoint others = Checkpoint::open_file(link);
  const HostWeightPlan plan =
      WeightLoader(checkpoint_, demand(1), {.others = {{"vae", &others}}}).take_host_weight_plan();
  EXPECT_EQ(plan.refusal, MappingRefusal::shared_file);
  EXPECT_EQ(plan.reason,
            file_.string() + ": component 'vae' reads it too; only a file of component 'transformer' alone is mapped");
}

/// Even where that component has its weights in a file of its own.
TEST_F(HostWeightPlanTest, AFileWithTensorsUnderAnotherComponentsNameIsNotMapped) {
  const auto file = folder_.write(
      "n.safetensors", crafted_safetensors(R"({"e":{"dtype":"U8","shape":[0,2],"data_offsets":[0,0]},)"
                                           R"("vae.empty":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"));
  const Checkpoint both = Checkpoint::open_file(file);
  const WeightDemand e{"transformer", {{"e", DType::u8, {0, 2}}}, {}, {}};
  const HostWeightPlan plan = WeightLoader(both, e, {.others = {{"vae", &checkpoint_}}}).take_host_weight_plan();
  EXPECT_EQ(plan.refusal, MappingRefusal::shared_file);
  EXPECT_EQ(plan.reason, file.string() +
                             ": tensor \"vae.empty\" is of component 'vae'; only a file of component "
                             "'transformer' alone is mapped");
  EXPECT_EQ(WeightLoader(both, e, {.others = {{"va", &checkpoint_}}}).take_host_weight_plan().refusal,
            MappingRefusal::none);
}

TEST_F(HostWeightPlanTest, RowsAreConsumedOnceEach) {
  EXPECT_TRUE(check_coverage(checkpoint_, demand(1)).empty());
  expect_error(ErrorCode::incompatible, {file_.string(), "row 0 of tensor \"ab\" is consumed 2 times"},
               [&] { check_coverage(checkpoint_, demand(0)); });
  WeightDemand less = demand(1);
  less.tensors.erase(less.tensors.begin());
  expect_error(ErrorCode::incompatible, {"row 0 of tensor \"ab\" is consumed 0 times"},
               [&] { check_coverage(checkpoint_, less); });
}

TEST_F(HostWeightPlanTest, FormsThatDoNotFitAreRefused) {
  const auto bind = [&](const StoredForm& form, const TensorSpec& tensor) {
    bind_weight(checkpoint_, tensor, [&](const std::string&) { return form; });
  };
  const std::vector<std::string> parts{file_.string(), "tensor \"ab\" is U8 [6, 2]", "'x' as"};
  const TensorSpec x{"x", DType::u8, {4, 2}};
  for (const RowRuns& rows : {RowRuns{-1, 2, 2}, RowRuns{0, 3, 3}, RowRuns{0, 0, 1}, RowRuns{3, 4, 0}, RowRuns{0, 2, 5},
                              RowRuns{0, 2, INT64_MAX}, RowRuns{INT64_MAX, 2, 1}})
    expect_error(ErrorCode::incompatible, parts, [&] { bind({"ab", rows, false}, x); });
  expect_error(ErrorCode::incompatible, parts, [&] { bind({"ab", std::nullopt, true}, x); });
  expect_error(ErrorCode::incompatible, parts, [&] { bind({"ab", std::nullopt, false}, x); });
  expect_error(ErrorCode::incompatible, parts, [&] { bind({"ab", std::nullopt, false}, {"x", DType::f32, {6, 2}}); });
  expect_error(ErrorCode::not_found, {"lacks tensor 'gone'"}, [&] { bind({"gone", std::nullopt, false}, x); });
}

TEST(PackWeight, CastsAsTheFormatsDemand) {
  const testing::TemporaryFolder folder;
  // f32: 1, 1 + 2^-8 (a tie, to even), 1 + 3 * 2^-8 (a tie, to even), -inf
  const std::vector<std::uint32_t> wide{0x3F800000, 0x3F808000, 0x3F818000, 0xFF800000};
  std::string bytes = crafted_safetensors(R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 0);
  bytes.append(reinterpret_cast<const char*>(wide.data()), 16);
  const Checkpoint checkpoint = Checkpoint::open_file(folder.write("w.safetensors", bytes));
  const WeightBinding binding = bind_weight(checkpoint, {"n", DType::bf16, {4}}, [](const std::string&) {
    return StoredForm{"w", std::nullopt, false};
  });
  std::array<std::uint16_t, 4> narrow{};
  pack_weight(binding, 0, std::as_writable_bytes(std::span(narrow)));
  EXPECT_EQ(narrow, (std::array<std::uint16_t, 4>{0x3F80, 0x3F80, 0x3F82, 0xFF80}));
}

}  // namespace
}  // namespace lamina
