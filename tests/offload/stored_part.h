#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/temporary_folder.h"
#include "offload/offload_plan.h"
#include "weights/checkpoint.h"
#include "weights/weight_binding.h"

namespace lamina::test {

/// Four units of different sizes whose checkpoint needs every adapter: unit i has a fused pair stored head by head, a
/// transposed matrix, a matrix that is cast and a plain one of an odd number of elements.
class Stored {
 public:
  static constexpr std::size_t kUnits = 4;

  Stored();

  const OffloadPlan& plan() const { return plan_; }
  const std::filesystem::path& file() const { return file_; }

  std::vector<WeightBinding> bindings() const;

 private:
  TensorSpec store(TensorSpec spec, std::mt19937& random);
  void add_unit(std::size_t i, std::mt19937& random);
  void write();

  testing::TemporaryFolder folder_;
  std::filesystem::path file_;
  OffloadPlan plan_;
  std::map<std::string, StoredForm> forms_;
  std::vector<std::pair<TensorSpec, std::vector<std::byte>>> stored_;
  std::optional<Checkpoint> checkpoint_;
};

}  // namespace lamina::test
