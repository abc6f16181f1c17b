#include "models/flux2/flux2_stored_forms.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "models/flux2/flux2_original_names.h"

namespace lamina {
namespace {

/// One of q, k, v, and the tensors that may hold all three.
struct Projection {
  std::string_view name;
  std::string_view fused;
  std::string_view fused_by_head;
  std::int64_t position;
};

constexpr std::array kProjections{
    Projection{".attn.to_q.weight", ".attn.to_qkv.weight", ".attn.query_key_value.weight", 0},
    Projection{".attn.to_k.weight", ".attn.to_qkv.weight", ".attn.query_key_value.weight", 1},
    Projection{".attn.to_v.weight", ".attn.to_qkv.weight", ".attn.query_key_value.weight", 2},
    Projection{".attn.add_q_proj.weight", ".attn.to_added_qkv.weight", ".attn.added_query_key_value.weight", 0},
    Projection{".attn.add_k_proj.weight", ".attn.to_added_qkv.weight", ".attn.added_query_key_value.weight", 1},
    Projection{".attn.add_v_proj.weight", ".attn.to_added_qkv.weight", ".attn.added_query_key_value.weight", 2},
};

std::optional<StoredForm> projection_form(const Flux2Config& config, const Checkpoint& checkpoint,
                                          const std::string& name) {
  for (const Projection& projection : kProjections) {
    if (!name.ends_with(projection.name)) continue;
    if (checkpoint.find(name) != nullptr) return StoredForm{name, std::nullopt, false};
    const std::string block = name.substr(0, name.size() - projection.name.size());
    const std::int64_t width = config.width();
    if (std::string fused = block + std::string(projection.fused); checkpoint.find(fused) != nullptr)
      return StoredForm{std::move(fused), RowRuns{projection.position * width, width, 0}, false};
    if (std::string fused = block + std::string(projection.fused_by_head); checkpoint.find(fused) != nullptr)
      return StoredForm{std::move(fused),
                        RowRuns{projection.position * config.head_dim, config.head_dim, 3 * config.head_dim}, false};
  }
  return std::nullopt;
}

/// Two norms of a block that one operation reads.
struct NormPair {
  std::string_view of_q;
  std::string_view of_k;
};

constexpr std::array kNormPairs{
    NormPair{".attn.norm_q.weight", ".attn.norm_k.weight"},
    NormPair{".attn.norm_added_q.weight", ".attn.norm_added_k.weight"},
};

/// The other norm of the pair; nullopt for tensors that are none of a pair.
std::optional<std::string> norm_partner(std::string_view name) {
  for (const auto& [of_q, of_k] : kNormPairs) {
    if (name.ends_with(of_q)) return std::string(name.substr(0, name.size() - of_q.size())) + std::string(of_k);
    if (name.ends_with(of_k)) return std::string(name.substr(0, name.size() - of_k.size())) + std::string(of_q);
  }
  return std::nullopt;
}

/// The rows of the model's tensor are those that are stored, divided by the parts.
std::optional<StoredForm> original_form(const Checkpoint& checkpoint, const std::string& name) {
  const std::optional<Flux2OriginalName> original = flux2_original_name(name);
  if (!original || checkpoint.find(name) != nullptr) return std::nullopt;
  for (const std::string_view prefix : {"", "model.diffusion_model."}) {
    std::string tensor = std::string(prefix) + original->tensor;
    const TensorSpec* stored = checkpoint.find(tensor);
    if (stored == nullptr || stored->shape.rank() == 0) continue;
    return StoredForm{std::move(tensor), original->rows(stored->shape[0] / original->parts)};
  }
  return std::nullopt;
}

}  // namespace

StoredFormOf flux2_stored_forms(const Flux2Config& config, const Checkpoint& checkpoint) {
  return [config, &checkpoint](const std::string& name) -> std::optional<StoredForm> {
    if (std::optional<StoredForm> form = projection_form(config, checkpoint, name)) return form;
    if (checkpoint.find(name) == nullptr && checkpoint.find(name + "_t") != nullptr)
      return StoredForm{name + "_t", std::nullopt, true};
    if (std::optional<StoredForm> form = original_form(checkpoint, name)) return form;
    if (norm_partner(name)) return StoredForm{name, std::nullopt, false};
    return std::nullopt;
  };
}

DTypeOf flux2_dtypes(const Checkpoint& checkpoint, StoredFormOf stored_as) {
  const auto stored = [&checkpoint, stored_as = std::move(stored_as)](std::string_view name) {
    const std::optional<StoredForm> form = stored_as(std::string(name));
    return checkpoint.weight_dtype_of(form ? form->tensor : name);
  };
  return [stored](std::string_view name) {
    const DType dtype = stored(name);
    const std::optional<std::string> partner = norm_partner(name);
    return partner && stored(*partner) != dtype ? DType::f32 : dtype;
  };
}

}  // namespace lamina
