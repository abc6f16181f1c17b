#include "pipelines/registry.h"

#include <array>
#include <string>
#include <string_view>

#include "base/error.h"
#include "pipelines/flux2/flux2_pipeline.h"
#include "weights/weight_files.h"

namespace lamina {
namespace {

struct Family {
  std::string_view class_name;
  std::unique_ptr<Pipeline> (*open)(const ModelFolder& folder, const PipelineOptions& options);
};

constexpr std::array<Family, 1> kFamilies{{{"Flux2KleinPipeline", &open_flux2_pipeline}}};

}  // namespace

std::unique_ptr<Pipeline> open_pipeline(const ModelFolder& folder, const PipelineOptions& options) {
  check_variant(folder, options.variant);
  std::string supported;
  for (const Family& family : kFamilies) {
    if (family.class_name == folder.class_name()) return family.open(folder, options);
    supported += supported.empty() ? "" : ", ";
    supported += family.class_name;
  }
  fail(ErrorCode::incompatible, "{}: pipeline class '{}' is not supported; supported: {}", folder.path().string(),
       folder.class_name(), supported);
}

}  // namespace lamina
