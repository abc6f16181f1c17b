#include "weights/checkpoint.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "weights/safetensors.h"
#include "weights/weight_files.h"

namespace lamina {

struct Checkpoint::Impl {
  std::filesystem::path path;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::vector<Location> locations;  ///< sorted by name: of the tensor of the same position in `specs`
  std::vector<TensorSpec> specs;

  const SafetensorsFile& open(const std::filesystem::path& file);
  void add_shard(const std::filesystem::path& index, const std::string& shard, const std::vector<std::string>& names);
  void sort_by_name();
  const Location* find(std::string_view name) const noexcept;
  const Location& require(std::string_view name) const;
};

namespace {

std::string_view name_of(const TensorSpec& spec) {
  return spec.name;
}

/// The names of each shard's tensors as the index tells them. Shards are plain file names, so that an index reaches no
/// file outside of its folder.
std::map<std::string, std::vector<std::string>> read_index(const std::filesystem::path& index) {
  const Json root = read_json_file(index);
  if (!root.is_object()) fail(ErrorCode::corrupt, "{}: found {}; an object is expected", index.string(), excerpt(root));
  const auto weight_map = root.find("weight_map");
  if (weight_map == root.end()) fail(ErrorCode::corrupt, "{}: field 'weight_map' is missing", index.string());
  if (!weight_map->is_object())
    fail(ErrorCode::corrupt, "{}: field 'weight_map' is {}; an object is expected", index.string(),
         excerpt(*weight_map));
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, shard] : weight_map->items()) {
    if (!shard.is_string() || !is_plain_file_name(shard.get_ref<const std::string&>()))
      fail(ErrorCode::corrupt, "{}: weight_map puts tensor {} in {}; the name of a file in the same folder is expected",
           index.string(), excerpt(tensor), excerpt(shard));
    shards[shard.get<std::string>()].push_back(tensor);
  }
  return shards;
}

}  // namespace

const SafetensorsFile& Checkpoint::Impl::open(const std::filesystem::path& file) {
  return *files.emplace_back(std::make_unique<SafetensorsFile>(SafetensorsFile::open(file)));
}

/// Takes the named tensors of a shard. Others in it are left alone: the index decides where a tensor is read.
void Checkpoint::Impl::add_shard(const std::filesystem::path& index, const std::string& shard,
                                 const std::vector<std::string>& names) {
  if (!is_there(path / shard))
    fail(ErrorCode::not_found, "{}: shard {} does not exist", index.string(), excerpt(shard));
  const SafetensorsFile& file = open(path / shard);
  std::unordered_map<std::string_view, const StoredTensor*> stored;
  for (const StoredTensor& tensor : file.header().tensors) stored.emplace(tensor.spec.name, &tensor);
  for (const std::string& name : names) {
    const auto tensor = stored.find(name);
    if (tensor == stored.end())
      fail(ErrorCode::not_found, "{}: shard {} lacks tensor {}", index.string(), excerpt(shard), excerpt(name));
    locations.push_back({&file, tensor->second});
  }
}

void Checkpoint::Impl::sort_by_name() {
  std::ranges::sort(locations, {}, [](const Location& location) { return name_of(location.tensor->spec); });
  specs.reserve(locations.size());
  for (const Location& location : locations) specs.push_back(location.tensor->spec);
}

const Checkpoint::Location* Checkpoint::Impl::find(std::string_view name) const noexcept {
  const auto spec = std::ranges::lower_bound(specs, name, {}, name_of);
  return spec == specs.end() || spec->name != name ? nullptr
                                                   : &locations[static_cast<std::size_t>(spec - specs.begin())];
}

const Checkpoint::Location& Checkpoint::Impl::require(std::string_view name) const {
  const Location* location = find(name);
  if (location == nullptr) fail(ErrorCode::not_found, "{}: there is no tensor '{}'", path.string(), name);
  return *location;
}

Checkpoint Checkpoint::open(const std::filesystem::path& folder, const std::string& stem, const std::string& variant) {
  const WeightFile weights = find_weights(folder, stem, variant);
  if (!weights.is_index) {
    Checkpoint checkpoint = open_file(weights.path);
    checkpoint.impl_->path = folder;
    return checkpoint;
  }
  auto impl = std::make_unique<Impl>();
  impl->path = folder;
  for (const auto& [shard, names] : read_index(weights.path)) impl->add_shard(weights.path, shard, names);
  impl->sort_by_name();
  return Checkpoint(std::move(impl));
}

Checkpoint Checkpoint::open_file(const std::filesystem::path& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  const SafetensorsFile& file = impl->open(path);
  for (const StoredTensor& tensor : file.header().tensors) impl->locations.push_back({&file, &tensor});
  impl->sort_by_name();
  return Checkpoint(std::move(impl));
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const std::vector<TensorSpec>& Checkpoint::tensors() const noexcept {
  return impl_->specs;
}

const TensorSpec* Checkpoint::find(std::string_view name) const noexcept {
  const Location* location = impl_->find(name);
  return location == nullptr ? nullptr : &location->tensor->spec;
}

DType Checkpoint::dtype_of(std::string_view name) const {
  return impl_->require(name).tensor->spec.dtype;
}

DType Checkpoint::weight_dtype_of(std::string_view name) const {
  const Location& location = impl_->require(name);
  const DType dtype = location.tensor->spec.dtype;
  if (dtype == DType::f16) return DType::bf16;
  if (dtype != DType::f32 && dtype != DType::bf16)
    fail(ErrorCode::not_implemented, "{}: tensor {} is stored as {}; weights are F32, BF16 or F16",
         location.file->path().string(), excerpt(location.tensor->spec.name), to_string(dtype));
  return dtype;
}

ConstTensorView Checkpoint::view(const TensorSpec& expected) const {
  const Location& location = impl_->require(expected.name);
  const TensorSpec& found = location.tensor->spec;
  if (found != expected)
    fail(ErrorCode::incompatible, "{}: tensor {} is {} {}; {} {} is expected", location.file->path().string(),
         excerpt(found.name), to_string(found.dtype), to_string(found.shape), to_string(expected.dtype),
         to_string(expected.shape));
  return location.file->view(*location.tensor);
}

Checkpoint::Location Checkpoint::locate(std::string_view name) const noexcept {
  const Location* location = impl_->find(name);
  return location == nullptr ? Location{} : *location;
}

std::vector<const SafetensorsFile*> Checkpoint::files() const {
  std::vector<const SafetensorsFile*> files;
  for (const std::unique_ptr<SafetensorsFile>& file : impl_->files) files.push_back(file.get());
  return files;
}

const std::filesystem::path& Checkpoint::path() const noexcept {
  return impl_->path;
}

}  // namespace lamina
