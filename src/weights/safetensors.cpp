#include "weights/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "weights/foreign_format.h"

namespace lamina {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
// Far above any real entry or metadata; keeps a hostile header from growing into gigabytes before it is refused.
constexpr std::size_t kMaxValuesPerEntry = 100'000;
constexpr std::string_view kMetadataKey = "__metadata__";

/// What Git LFS leaves in the place of a file that was not fetched.
constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";

/// The header's text, behind its little-endian length. Every length is refused before anything is allocated for it.
std::string_view header_text(std::span<const std::byte> file, const std::string& source) {
  if (file.size() < kLengthBytes)
    fail(ErrorCode::corrupt, "{}: {} bytes are no safetensors file; the header's length alone takes {}", source,
         file.size(), kLengthBytes);
  if (std::string_view(reinterpret_cast<const char*>(file.data()), file.size()).starts_with(kLfsPointer))
    fail(ErrorCode::corrupt, "{}: a Git LFS pointer stands in the file's place; fetch the file with 'git lfs pull'",
         source);
  if (const auto format = foreign_format(file)) fail(ErrorCode::incompatible, "{} {}", source, *format);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  if (length == 0) fail(ErrorCode::corrupt, "{}: header length is 0", source);
  if (length > kMaxHeaderBytes)
    fail(ErrorCode::corrupt, "{}: header length {} is above the limit of {} bytes", source, length, kMaxHeaderBytes);
  if (length > file.size() - kLengthBytes)
    fail(ErrorCode::corrupt, "{}: header length {} reaches beyond the file: {} of its bytes are missing", source,
         length, length - (file.size() - kLengthBytes));
  const std::span<const std::byte> bytes = file.subspan(kLengthBytes, length);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.front() != '{') fail(ErrorCode::corrupt, "{}: the header does not start with '{{'", source);
  return text;
}

/// Reads one entry of the header: {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}. Fields that the format
/// does not define are ignored, as its reference implementation does.
class EntryReader {
 public:
  EntryReader(const std::string& source, const std::string& name, const Json& entry)
      : source_(source), name_(name), entry_(entry) {
    if (!entry.is_object()) reject("found {}; an object is expected", excerpt(entry));
  }

  /// The tensor, its offset counted from the start of the data.
  StoredTensor read() const {
    const TensorSpec spec{name_, dtype(), shape()};
    const auto [begin, end] = data_offsets();
    const std::size_t size = size_bytes(spec);
    if (end - begin != size)
      reject("data_offsets [{}, {}] span {} bytes, but {} {} takes {}", begin, end, end - begin, to_string(spec.dtype),
             to_string(spec.shape), size);
    return {spec, begin, size};
  }

 private:
  template <typename... Args>
  [[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::corrupt, "{}: tensor {}: {}", source_, excerpt(name_),
         fmt::format(format, std::forward<Args>(args)...));
  }

  const Json& field(const char* name) const {
    const auto member = entry_.find(name);
    if (member == entry_.end()) reject("field '{}' is missing", name);
    return *member;
  }

  DType dtype() const {
    const Json& value = field("dtype");
    if (!value.is_string()) reject("dtype is {}; a string is expected", excerpt(value));
    const std::optional<DType> dtype = parse_dtype(value.get_ref<const std::string&>());
    if (!dtype) reject("unknown dtype {}", excerpt(value));
    return *dtype;
  }

  Shape shape() const {
    const Json& value = field("shape");
    if (!value.is_array()) reject("shape is {}; a list is expected", excerpt(value));
    if (value.size() > Shape::kMaxRank)
      fail(ErrorCode::not_implemented, "{}: tensor {} has {} axes; at most {} are supported", source_, excerpt(name_),
           value.size(), Shape::kMaxRank);
    std::vector<std::int64_t> extents;
    for (const Json& extent : value) {
      constexpr auto kMaxExtent = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > kMaxExtent)
        reject("shape is {}; extents are integers from 0 to {}", excerpt(value), kMaxExtent);
      extents.push_back(extent.get<std::int64_t>());
    }
    return Shape(std::span<const std::int64_t>(extents));
  }

  std::pair<std::size_t, std::size_t> data_offsets() const {
    const Json& value = field("data_offsets");
    if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() || !value[1].is_number_unsigned())
      reject("data_offsets is {}; two integers that are not negative are expected", excerpt(value));
    const auto begin = value[0].get<std::size_t>();
    const auto end = value[1].get<std::size_t>();
    if (begin > end) reject("data_offsets [{}, {}] are reversed", begin, end);
    return {begin, end};
  }

  std::size_t size_bytes(const TensorSpec& spec) const {
    const std::optional<std::int64_t> elements = spec.shape.checked_elements();
    const std::optional<std::size_t> size =
        elements ? checked_mul(static_cast<std::size_t>(*elements), size_of(spec.dtype)) : std::nullopt;
    if (!size) reject("the size of shape {} overflows", to_string(spec.shape));
    return *size;
  }

  const std::string& source_;
  const std::string& name_;
  const Json& entry_;
};

std::map<std::string, std::string> read_metadata(const Json& value, const std::string& source) {
  if (!value.is_object())
    fail(ErrorCode::corrupt, "{}: {} is {}; an object of strings is expected", source, kMetadataKey, excerpt(value));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      fail(ErrorCode::corrupt, "{}: {}: {} is {}; a string is expected", source, kMetadataKey, excerpt(key),
           excerpt(text));
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

/// Sorts the tensors by their bytes and proves that they fill the data exactly: no overlap, no hole, nothing behind.
void check_coverage_of_data(std::vector<StoredTensor>& tensors, std::size_t data_bytes, const std::string& source) {
  std::ranges::sort(tensors, {}, [](const StoredTensor& tensor) {
    return std::tuple(tensor.offset_bytes, tensor.size_bytes, std::string_view(tensor.spec.name));
  });
  std::size_t end = 0;
  const std::string* previous = nullptr;
  for (const StoredTensor& tensor : tensors) {
    const std::string& name = tensor.spec.name;
    if (tensor.offset_bytes < end)
      fail(ErrorCode::corrupt, "{}: the bytes of tensor {} overlap those of tensor {}", source, excerpt(name),
           excerpt(*previous));
    if (tensor.offset_bytes > end)
      fail(ErrorCode::corrupt, "{}: a hole of {} bytes before tensor {}", source, tensor.offset_bytes - end,
           excerpt(name));
    end += tensor.size_bytes;
    previous = &name;
  }
  if (end > data_bytes)
    fail(ErrorCode::corrupt, "{}: the data is cut short: {} bytes are missing (tensor {} ends at byte {} of {})",
         source, end - data_bytes, excerpt(*previous), end, data_bytes);
  if (end < data_bytes)
    fail(ErrorCode::corrupt, "{}: {} bytes behind the last tensor belong to none", source, data_bytes - end);
}

}  // namespace

SafetensorsHeader SafetensorsHeader::parse(std::span<const std::byte> file, const std::string& source) {
  const std::string_view text = header_text(file, source);
  SafetensorsHeader header;
  visit_json_members(text, source + " (header)", kMaxValuesPerEntry, [&](const std::string& name, const Json& entry) {
    if (name == kMetadataKey) {
      header.metadata = read_metadata(entry, source);
    } else {
      header.tensors.push_back(EntryReader(source, name, entry).read());
    }
  });
  const std::size_t data_start = kLengthBytes + text.size();
  check_coverage_of_data(header.tensors, file.size() - data_start, source);
  for (StoredTensor& tensor : header.tensors) tensor.offset_bytes += data_start;
  return header;
}

SafetensorsFile::SafetensorsFile(InputFile file, FileMapping mapping, SafetensorsHeader header)
    : file_(std::move(file)), mapping_(std::move(mapping)), header_(std::move(header)) {}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  InputFile file = InputFile::open(path);
  FileMapping mapping = FileMapping::map(file);
  SafetensorsHeader header = SafetensorsHeader::parse(mapping.bytes(), path.string());
  return SafetensorsFile(std::move(file), std::move(mapping), std::move(header));
}

ConstTensorView SafetensorsFile::view(const StoredTensor& tensor) const {
  const std::span<const std::byte> bytes = mapping_.bytes().subspan(tensor.offset_bytes, tensor.size_bytes);
  return ConstTensorView(bytes.data(), tensor.spec.dtype, tensor.spec.shape);
}

}  // namespace lamina
