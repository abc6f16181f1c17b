#include "weights/lora.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/expect_error.h"
#include "base/temporary_folder.h"
#include "weights/crafted_safetensors.h"

namespace lamina {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;

struct Stored {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

std::string file_of(const std::map<std::string, Stored>& tensors, const std::string& metadata = "") {
  std::string header = "{" + metadata;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    std::string shape;
    for (const std::int64_t extent : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})",
                          header.size() > 1 ? "," : "", name, shape, begin, data.size());
  }
  return testing::crafted_safetensors(header + "}") + data;
}

/// B A of rank 2: rows (1, 2), (3, 4), (0, -1) times columns (1, 0), (2, 5).
const std::map<std::string, Stored> kLowRank{
    {"transformer.x.lora_A.weight", {{2, 2}, {1, 2, 0, 5}}},
    {"transformer.x.lora_B.weight", {{3, 2}, {1, 2, 3, 4, 0, -1}}},
};
const std::vector<float> kProduct{1, 12, 3, 26, 0, -5};

std::vector<float> delta_of(const std::string& content, float scale, const std::string& module = "x") {
  const TemporaryFolder folder;
  const LoraFile file = LoraFile::read(folder.write("lora.safetensors", content), scale);
  EXPECT_EQ(file.modules.size(), 1U);
  const auto delta = file.modules.at(module);
  std::vector<float> values(static_cast<std::size_t>(delta->rows() * delta->columns()));
  merge_of({"x.weight", DType::f32, {delta->rows(), delta->columns()}}, delta, std::nullopt)->apply(0, values);
  return values;
}

std::vector<float> times(float scale, std::vector<float> values) {
  for (float& value : values) value *= scale;
  return values;
}

TEST(Lora, AddsTheScaledProduct) {
  EXPECT_EQ(delta_of(file_of(kLowRank), 1), kProduct);
  EXPECT_EQ(delta_of(file_of(kLowRank), -0.5F), times(-0.5F, kProduct));
}

TEST(Lora, AlphaDividedByTheRankScales) {
  auto tensors = kLowRank;
  tensors["transformer.x.alpha"] = {{}, {8}};
  EXPECT_EQ(delta_of(file_of(tensors), 0.5F), times(2, kProduct));
  const auto metadata = [](const std::string& text) {
    return R"("__metadata__":{"lora_adapter_metadata":")" + text + R"("})";
  };
  EXPECT_EQ(delta_of(file_of(kLowRank, metadata(R"({\"transformer.lora_alpha\": 6})")), 1), times(3, kProduct));
  EXPECT_EQ(delta_of(file_of(kLowRank, metadata(R"({\"transformer.lora_alpha\": 6, )"
                                                R"(\"transformer.alpha_pattern\": {\"x\": 2}})")),
                     1),
            kProduct);
}

TEST(Lora, NamesOfOtherToolsAreRead) {
  for (const std::string prefix : {"", "diffusion_model.", "base_model.model.", "base_model.model.transformer."})
    for (const auto& [a, b] : {std::pair<std::string, std::string>{"lora_A", "lora_B"},
                               {"lora_down", "lora_up"},
                               {"lora_A.default", "lora_B.default"}})
      EXPECT_EQ(delta_of(file_of({{prefix + "x." + a + ".weight", kLowRank.at("transformer.x.lora_A.weight")},
                                  {prefix + "x." + b + ".weight", kLowRank.at("transformer.x.lora_B.weight")}}),
                         1),
                kProduct);
}

/// [[1, 2], [0, 3]] kron [[1, -1]].
TEST(Lora, KroneckerProductsAreWholeOrOfTwoFactors) {
  const std::vector<float> expected{1, -1, 2, -2, 0, 0, 3, -3};
  EXPECT_EQ(delta_of(file_of({{"x.lokr_w1", {{2, 2}, {1, 2, 0, 3}}},
                              {"x.lokr_w2", {{1, 2}, {1, -1}}},
                              {"x.alpha", {{}, {1e10F}}}}),
                     1),
            expected);
  EXPECT_EQ(delta_of(file_of({{"x.lokr_w1_a", {{2, 2}, {1, 0, 0, 1}}},
                              {"x.lokr_w1_b", {{2, 2}, {1, 2, 0, 3}}},
                              {"x.lokr_w2", {{1, 2}, {1, -1}}},
                              {"x.alpha", {{1}, {4}}}}),
                     1),
            times(2, expected));
}

/// Rows 2 and 0 of the delta, in pieces that end anywhere.
TEST(Lora, RowsOfADeltaAreAddedInPiecesOfAnySize) {
  const TemporaryFolder folder;
  const LoraFile file = LoraFile::read(folder.write("lora.safetensors", file_of(kLowRank)), 1);
  const auto change = merge_of({"y.weight", DType::f32, {2, 2}}, file.modules.at("x"), RowRuns{2, 1, -2});
  const std::vector<float> expected{100, 95, 101, 112};
  for (std::size_t piece = 1; piece <= 4; ++piece) {
    std::vector<float> values(4, 100);
    for (std::size_t first = 0; first < 4; first += piece)
      change->apply(static_cast<std::int64_t>(first), std::span(values).subspan(first, std::min(piece, 4 - first)));
    EXPECT_EQ(values, expected);
  }
}

TEST(Lora, WhatDoesNotFitIsNamed) {
  const TemporaryFolder folder;
  const auto read = [&](const std::map<std::string, Stored>& tensors) {
    return LoraFile::read(folder.write("lora.safetensors", file_of(tensors)), 1);
  };
  auto tensors = kLowRank;
  tensors["transformer.x.lora_magnitude_vector"] = {{3}, {1, 1, 1}};
  expect_error(ErrorCode::incompatible, {"lora.safetensors", "x.lora_magnitude_vector\" belongs to no kind of LoRA"},
               [&] { read(tensors); });
  expect_error(ErrorCode::incompatible, {"module \"x\"", "factor 'up' is missing"}, [&] {
    read({{"x.lora_A.weight", {{1, 1}, {1}}}});
  });
  expect_error(ErrorCode::incompatible, {"module \"x\"", "lora_B has 1 columns, but lora_A has 2 rows"}, [&] {
    read({{"x.lora_A.weight", {{2, 1}, {1, 2}}}, {"x.lora_B.weight", {{1, 1}, {1}}}});
  });
  expect_error(ErrorCode::incompatible, {"factor 'down' is [1, 1, 1]"}, [&] {
    read({{"x.lora_A.weight", {{1, 1, 1}, {1}}}, {"x.lora_B.weight", {{1, 1}, {1}}}});
  });
  const auto delta = read(kLowRank).modules.at("x");
  expect_error(ErrorCode::incompatible, {"[3, 2]", "y.weight is [3, 3]"}, [&] {
    merge_of({"y.weight", DType::bf16, {3, 3}}, delta, std::nullopt);
  });
  expect_error(ErrorCode::incompatible, {"y.weight is [2, 2]"}, [&] {
    merge_of({"y.weight", DType::bf16, {2, 2}}, delta, RowRuns{2, 2, 0});
  });
}

}  // namespace
}  // namespace lamina
