#include "weights/lora.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "weights/checkpoint.h"
#include "weights/element_cast.h"
#include "weights/safetensors.h"

namespace lamina {
namespace {

/// [rows, columns], row by row.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> values;

  const float* row(std::int64_t index) const { return values.data() + index * columns; }
};

class LowRankDelta final : public LoraDelta {
 public:
  LowRankDelta(Matrix up, Matrix down, float scale) : up_(std::move(up)), down_(std::move(down)), scale_(scale) {}

  std::int64_t rows() const noexcept override { return up_.rows; }
  std::int64_t columns() const noexcept override { return down_.columns; }
  void add_to(std::int64_t row, std::int64_t first_column, std::span<float> values) const override {
    std::vector<float> sums(values.size());
    for (std::int64_t rank = 0; rank < down_.rows; ++rank) {
      const float factor = up_.row(row)[rank];
      const float* from = down_.row(rank) + first_column;
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += factor * from[i];
    }
    for (std::size_t i = 0; i < sums.size(); ++i) values[i] += scale_ * sums[i];
  }

 private:
  Matrix up_;    ///< [out, rank]
  Matrix down_;  ///< [rank, in]
  float scale_;
};

class KroneckerDelta final : public LoraDelta {
 public:
  KroneckerDelta(Matrix outer, Matrix inner, float scale)
      : outer_(std::move(outer)), inner_(std::move(inner)), scale_(scale) {}

  std::int64_t rows() const noexcept override { return outer_.rows * inner_.rows; }
  std::int64_t columns() const noexcept override { return outer_.columns * inner_.columns; }
  void add_to(std::int64_t row, std::int64_t first_column, std::span<float> values) const override {
    const float* outer = outer_.row(row / inner_.rows);
    const float* inner = inner_.row(row % inner_.rows);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t column = first_column + static_cast<std::int64_t>(i);
      values[i] += scale_ * (outer[column / inner_.columns] * inner[column % inner_.columns]);
    }
  }

 private:
  Matrix outer_;
  Matrix inner_;
  float scale_;
};

class MergedDelta final : public WeightChange {
 public:
  MergedDelta(std::shared_ptr<const LoraDelta> delta, const std::optional<RowRuns>& rows)
      : delta_(std::move(delta)), rows_(rows) {}

  void apply(std::int64_t first_element, std::span<float> values) const override {
    const std::int64_t columns = delta_->columns();
    while (!values.empty()) {
      const std::int64_t column = first_element % columns;
      const std::size_t count = std::min(values.size(), static_cast<std::size_t>(columns - column));
      delta_->add_to(row_of(first_element / columns), column, values.first(count));
      first_element += static_cast<std::int64_t>(count);
      values = values.subspan(count);
    }
  }

 private:
  std::int64_t row_of(std::int64_t row) const {
    return rows_ ? rows_->first + row / rows_->run * rows_->stride + row % rows_->run : row;
  }

  std::shared_ptr<const LoraDelta> delta_;
  std::optional<RowRuns> rows_;
};

/// Tensors of one module, by the end of their names.
using Factors = std::map<std::string, Checkpoint::Location>;

/// How names of tensors end, and what they are.
constexpr std::array<std::array<std::string_view, 2>, 13> kEnds{{{".lora_A.weight", "down"},
                                                                 {".lora_A.default.weight", "down"},
                                                                 {".lora_down.weight", "down"},
                                                                 {".lora_B.weight", "up"},
                                                                 {".lora_B.default.weight", "up"},
                                                                 {".lora_up.weight", "up"},
                                                                 {".alpha", "alpha"},
                                                                 {".lokr_w1", "w1"},
                                                                 {".lokr_w1_a", "w1_a"},
                                                                 {".lokr_w1_b", "w1_b"},
                                                                 {".lokr_w2", "w2"},
                                                                 {".lokr_w2_a", "w2_a"},
                                                                 {".lokr_w2_b", "w2_b"}}};

std::string_view without_prefixes(std::string_view name) {
  constexpr std::array<std::string_view, 4> kPrefixes{"base_model.model.", "model.diffusion_model.", "diffusion_model.",
                                                      "transformer."};
  for (const std::string_view prefix : kPrefixes)
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return name;
}

/// Reads one file.
class LoraReader {
 public:
  LoraReader(const std::filesystem::path& path, float scale)
      : path_(path), checkpoint_(Checkpoint::open_file(path)), scale_(scale) {
    const auto& metadata = checkpoint_.files().front()->header().metadata;
    if (const auto text = metadata.find("lora_adapter_metadata"); text != metadata.end())
      metadata_ = parse_json(text->second, path.string() + " (lora_adapter_metadata)");
  }

  LoraFile read() const {
    std::map<std::string, Factors> modules;
    for (const TensorSpec& spec : checkpoint_.tensors()) add(spec.name, modules);
    LoraFile file{path_, {}};
    for (const auto& [name, factors] : modules) file.modules.emplace(name, delta_of(name, factors));
    return file;
  }

 private:
  void add(const std::string& name, std::map<std::string, Factors>& modules) const {
    const auto end = std::ranges::find_if(kEnds, [&](const auto& entry) { return name.ends_with(entry[0]); });
    if (end == kEnds.end())
      fail(ErrorCode::incompatible, "{}: tensor {} belongs to no kind of LoRA that is read: lora_A and lora_B, or LoKr",
           path_.string(), excerpt(name));
    const std::string_view module = without_prefixes(std::string_view(name).substr(0, name.size() - (*end)[0].size()));
    modules[std::string(module)][std::string((*end)[1])] = checkpoint_.locate(name);
  }

  [[noreturn]] void reject(const std::string& module, const std::string& reason) const {
    fail(ErrorCode::incompatible, "{}: module {}: {}", path_.string(), excerpt(module), reason);
  }

  std::vector<float> floats(const Checkpoint::Location& location) const {
    const TensorSpec& spec = location.tensor->spec;
    if (spec.dtype != DType::f32 && !can_cast(spec.dtype, DType::f32))
      fail(ErrorCode::incompatible, "{}: tensor {} is stored as {}; F32, BF16 or F16 is expected", path_.string(),
           excerpt(spec.name), to_string(spec.dtype));
    std::vector<float> values(static_cast<std::size_t>(spec.shape.elements()));
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));
    const std::byte* stored = location.file->view(*location.tensor).data();
    if (spec.dtype == DType::f32)
      std::copy_n(stored, bytes.size(), bytes.data());
    else
      cast_elements(stored, spec.dtype, bytes.data(), DType::f32, spec.shape.elements());
    return values;
  }

  Matrix matrix(const std::string& module, const Factors& factors, const std::string& kind) const {
    const auto factor = factors.find(kind);
    if (factor == factors.end()) reject(module, fmt::format("its factor '{}' is missing", kind));
    const Shape& shape = factor->second.tensor->spec.shape;
    if (shape.rank() != 2 || shape.elements() == 0)
      reject(module, fmt::format("factor '{}' is {}; a matrix is expected", kind, to_string(shape)));
    return {shape[0], shape[1], floats(factor->second)};
  }

  static Matrix product(const Matrix& a, const Matrix& b) {
    Matrix result{a.rows, b.columns, std::vector<float>(static_cast<std::size_t>(a.rows * b.columns))};
    for (std::int64_t row = 0; row < a.rows; ++row)
      for (std::int64_t inner = 0; inner < a.columns; ++inner)
        for (std::int64_t column = 0; column < b.columns; ++column)
          result.values[static_cast<std::size_t>(row * b.columns + column)] += a.row(row)[inner] * b.row(inner)[column];
    return result;
  }

  /// Whole, or the product of two; `rank` is that of a product.
  Matrix kronecker_factor(const std::string& module, const Factors& factors, const std::string& kind,
                          std::optional<std::int64_t>& rank) const {
    if (factors.contains(kind)) return matrix(module, factors, kind);
    const Matrix a = matrix(module, factors, kind + "_a");
    const Matrix b = matrix(module, factors, kind + "_b");
    if (a.columns != b.rows)
      reject(module, fmt::format("{}_a has {} columns, but {}_b has {} rows", kind, a.columns, kind, b.rows));
    rank = a.columns;
    return product(a, b);
  }

  /// Of the module, as a tensor or in PEFT's metadata; nullopt: as large as the rank.
  std::optional<float> alpha_of(const std::string& module, const Factors& factors) const {
    if (const auto alpha = factors.find("alpha"); alpha != factors.end()) {
      const std::vector<float> values = floats(alpha->second);
      if (values.size() != 1 || !std::isfinite(values[0])) reject(module, "its alpha is no finite number");
      return values[0];
    }
    if (!metadata_.is_object()) return std::nullopt;
    if (const auto pattern = metadata_.find("transformer.alpha_pattern"); pattern != metadata_.end())
      if (pattern->is_object() && pattern->contains(module) && (*pattern)[module].is_number())
        return (*pattern)[module].get<float>();
    const auto alpha = metadata_.find("transformer.lora_alpha");
    return alpha != metadata_.end() && alpha->is_number() ? std::optional(alpha->get<float>()) : std::nullopt;
  }

  bool is_rank_stabilised() const {
    return metadata_.is_object() && metadata_.value("transformer.use_rslora", Json(false)) == Json(true);
  }

  std::shared_ptr<const LoraDelta> delta_of(const std::string& module, const Factors& factors) const {
    const std::optional<float> alpha = alpha_of(module, factors);
    if (!factors.contains("up") && !factors.contains("down")) {
      std::optional<std::int64_t> rank;
      Matrix w1 = kronecker_factor(module, factors, "w1", rank);
      Matrix w2 = kronecker_factor(module, factors, "w2", rank);
      const float scale = alpha && rank ? *alpha / static_cast<float>(*rank) : 1.0F;
      return std::make_shared<KroneckerDelta>(std::move(w1), std::move(w2), scale_ * scale);
    }
    Matrix up = matrix(module, factors, "up");
    Matrix down = matrix(module, factors, "down");
    if (up.columns != down.rows)
      reject(module, fmt::format("lora_B has {} columns, but lora_A has {} rows", up.columns, down.rows));
    const auto rank = static_cast<float>(down.rows);
    const float scale = alpha ? *alpha / (is_rank_stabilised() ? std::sqrt(rank) : rank) : 1.0F;
    return std::make_shared<LowRankDelta>(std::move(up), std::move(down), scale_ * scale);
  }

  std::filesystem::path path_;
  Checkpoint checkpoint_;
  float scale_;
  Json metadata_;
};

}  // namespace

LoraFile LoraFile::read(const std::filesystem::path& path, float scale) {
  return LoraReader(path, scale).read();
}

std::shared_ptr<const WeightChange> merge_of(const TensorSpec& tensor, std::shared_ptr<const LoraDelta> delta,
                                             const std::optional<RowRuns>& rows) {
  const std::int64_t last_row =
      rows && tensor.shape.rank() == 2
          ? rows->first + std::max<std::int64_t>((tensor.shape[0] / rows->run - 1) * rows->stride, 0) + rows->run
          : delta->rows();
  if (tensor.shape.rank() != 2 || tensor.shape[1] != delta->columns() || last_row > delta->rows() ||
      (!rows && tensor.shape[0] != delta->rows()))
    fail(ErrorCode::incompatible, "a LoRA changes a matrix [{}, {}], but {} is {}", delta->rows(), delta->columns(),
         tensor.name, to_string(tensor.shape));
  return std::make_shared<MergedDelta>(std::move(delta), rows);
}

}  // namespace lamina
