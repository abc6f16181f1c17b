#include "weights/weight_binding.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "weights/element_cast.h"

namespace lamina {
namespace {

constexpr std::int64_t kPieceElements = 32 * kKiB;
// Of a transposed tensor: what is read at once, and the part of it that is turned at once.
constexpr std::int64_t kTileElements = 256 * kKiB;
constexpr std::int64_t kTileColumns = 64;
constexpr std::int64_t kBlockRows = 32;

std::int64_t row_elements(const Shape& shape) {
  std::int64_t elements = 1;
  for (std::size_t axis = 1; axis < shape.rank(); ++axis) elements *= shape[axis];
  return elements;
}

/// The stored rows lie within the stored tensor, and there are as many as the tensor has.
bool fits(const RowRuns& rows, const Shape& tensor, const Shape& stored) {
  if (tensor.rank() == 0 || tensor.rank() != stored.rank()) return false;
  if (!std::ranges::equal(tensor.extents().subspan(1), stored.extents().subspan(1))) return false;
  if (rows.first < 0 || rows.run < 1 || tensor[0] % rows.run != 0) return false;
  const std::int64_t last_run = tensor[0] / rows.run - 1;
  if (last_run < 0) return true;
  const std::int64_t room = stored[0] - rows.first - rows.run;  // behind the first run
  if (room < 0) return false;
  return last_run == 0 || (rows.stride <= room / last_run && rows.stride >= -(rows.first / last_run));
}

bool agrees(const WeightBinding& binding) {
  const Shape& tensor = binding.tensor.shape;
  const Shape& stored = binding.stored.spec.shape;
  if (binding.rows) return fits(*binding.rows, tensor, stored);
  if (binding.transposed)
    return tensor.rank() == 2 && stored.rank() == 2 && tensor[0] == stored[1] && tensor[1] == stored[0];
  return tensor == stored;
}

/// Packs elements [begin, end) of one tensor.
class Packer {
 public:
  Packer(const WeightBinding& binding, std::int64_t begin, std::span<std::byte> destination)
      : binding_(binding),
        element_bytes_(static_cast<std::int64_t>(size_of(binding.tensor.dtype))),
        stored_element_bytes_(static_cast<std::int64_t>(size_of(binding.stored.spec.dtype))),
        begin_(begin),
        end_(begin + static_cast<std::int64_t>(destination.size()) / element_bytes_),
        destination_(destination.data()) {}

  void pack() {
    if (binding_.transposed) {
      pack_transposed();
    } else if (binding_.rows) {
      pack_rows(*binding_.rows);
    } else {
      read(begin_, begin_, end_ - begin_);
    }
  }

 private:
  std::byte* place(std::int64_t element) { return destination_ + (element - begin_) * element_bytes_; }

  void read_stored(std::int64_t stored_element, std::byte* destination, std::int64_t count) {
    binding_.file->file().read_at(
        binding_.stored.offset_bytes + static_cast<std::size_t>(stored_element * stored_element_bytes_),
        {destination, static_cast<std::size_t>(count * stored_element_bytes_)});
  }

  /// Elements that follow each other on both sides.
  void read(std::int64_t stored_element, std::int64_t element, std::int64_t count) {
    if (!binding_.is_cast()) return read_stored(stored_element, place(element), count);
    scratch_.resize(static_cast<std::size_t>(std::min(count, kPieceElements) * stored_element_bytes_));
    while (count > 0) {
      const std::int64_t piece = std::min(count, kPieceElements);
      read_stored(stored_element, scratch_.data(), piece);
      cast_elements(scratch_.data(), binding_.stored.spec.dtype, place(element), binding_.tensor.dtype, piece);
      stored_element += piece;
      element += piece;
      count -= piece;
    }
  }

  void pack_rows(const RowRuns& rows) {
    const std::int64_t row = row_elements(binding_.tensor.shape);
    const std::int64_t run = rows.run * row;
    for (std::int64_t element = begin_; element < end_;) {
      const std::int64_t within = element % run;
      const std::int64_t count = std::min(run - within, end_ - element);
      read((rows.first + element / run * rows.stride) * row + within, element, count);
      element += count;
    }
  }

  /// Stored row c holds column c. Some columns are read at once, as far as the wanted rows need them, and turned in
  /// blocks that the caches hold: element by element, each write would miss them.
  void pack_transposed() {
    const std::int64_t rows = binding_.tensor.shape[0];
    const std::int64_t columns = binding_.tensor.shape[1];
    const std::int64_t first_row = begin_ / columns;
    const std::int64_t row_count = (end_ - 1) / columns - first_row + 1;
    const std::int64_t tile = std::min(columns, std::clamp<std::int64_t>(kTileElements / row_count, 1, kTileColumns));
    scratch_.resize(static_cast<std::size_t>(tile * row_count * stored_element_bytes_));
    block_.resize(static_cast<std::size_t>(tile * kBlockRows * stored_element_bytes_));
    for (std::int64_t column = 0; column < columns; column += tile) {
      const std::int64_t count = std::min(tile, columns - column);
      read_stretches(column * rows + first_row, rows, row_count, count);
      for (std::int64_t row = 0; row < row_count; row += kBlockRows) {
        const std::int64_t block_rows = std::min(kBlockRows, row_count - row);
        turn(scratch_.data() + row * stored_element_bytes_, row_count, block_rows, count);
        for (std::int64_t i = 0; i < block_rows; ++i)
          place_row(i * count, (first_row + row + i) * columns + column, count);
      }
    }
  }

  /// `count` stretches of `size` stored elements, `stride` apart, to scratch one behind the other.
  void read_stretches(std::int64_t stored_element, std::int64_t stride, std::int64_t size, std::int64_t count) {
    if (size == stride) return read_stored(stored_element, scratch_.data(), size * count);
    for (std::int64_t i = 0; i < count; ++i)
      read_stored(stored_element + i * stride, scratch_.data() + i * size * stored_element_bytes_, size);
  }

  /// `columns` stretches of `rows` elements, `stride` apart, become `rows` rows in the block.
  void turn(const std::byte* stretches, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
    switch (stored_element_bytes_) {
      case 1: return turn_elements<std::uint8_t>(stretches, stride, rows, columns);
      case 2: return turn_elements<std::uint16_t>(stretches, stride, rows, columns);
      case 4: return turn_elements<std::uint32_t>(stretches, stride, rows, columns);
      default: return turn_elements<std::uint64_t>(stretches, stride, rows, columns);
    }
  }

  template <typename Element>
  void turn_elements(const std::byte* stretches, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(Element));
    for (std::int64_t column = 0; column < columns; ++column)
      for (std::int64_t row = 0; row < rows; ++row)
        std::memcpy(block_.data() + (row * columns + column) * kSize, stretches + (column * stride + row) * kSize,
                    sizeof(Element));
  }

  /// A row of the block, as far as it is wanted.
  void place_row(std::int64_t block_element, std::int64_t element, std::int64_t count) {
    const std::int64_t first = std::max(element, begin_);
    const std::int64_t last = std::min(element + count, end_);
    if (first >= last) return;
    const std::byte* source = block_.data() + (block_element + first - element) * stored_element_bytes_;
    if (binding_.is_cast()) {
      cast_elements(source, binding_.stored.spec.dtype, place(first), binding_.tensor.dtype, last - first);
    } else {
      std::memcpy(place(first), source, static_cast<std::size_t>((last - first) * element_bytes_));
    }
  }

  const WeightBinding& binding_;
  std::int64_t element_bytes_;
  std::int64_t stored_element_bytes_;
  std::int64_t begin_;
  std::int64_t end_;
  std::byte* destination_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> block_;
};

void pack_unchanged(const WeightBinding& binding, std::int64_t first_element, std::span<std::byte> destination) {
  Packer(binding, first_element, destination).pack();
}

/// In pieces: what is stored is packed as f32, changed, and cast to the tensor's dtype.
void pack_changed(const WeightBinding& binding, std::int64_t first_element, std::span<std::byte> destination) {
  WeightBinding wide = binding;
  wide.tensor.dtype = DType::f32;
  // A transposed tensor is read all over for any piece of it, so its pieces are large.
  const std::int64_t piece_elements = binding.transposed ? kTileElements : kPieceElements;
  const std::size_t element_bytes = size_of(binding.tensor.dtype);
  std::vector<float> values;
  while (!destination.empty()) {
    const std::size_t count = std::min(destination.size() / element_bytes, static_cast<std::size_t>(piece_elements));
    const std::span<std::byte> target = destination.first(count * element_bytes);
    values.resize(count);
    pack_unchanged(wide, first_element, std::as_writable_bytes(std::span(values)));
    for (const auto& change : binding.changes) change->apply(first_element, values);
    if (binding.tensor.dtype == DType::f32)
      std::memcpy(target.data(), values.data(), target.size());
    else
      cast_elements(std::as_bytes(std::span(values)).data(), DType::f32, target.data(), binding.tensor.dtype,
                    static_cast<std::int64_t>(count));
    first_element += static_cast<std::int64_t>(count);
    destination = destination.subspan(target.size());
  }
}

/// Whether the tensor may be made of what is stored. A change works on f32, so the stored dtype must lead there too.
bool casts_agree(const WeightBinding& binding, bool has_form) {
  const DType stored = binding.stored.spec.dtype;
  const DType dtype = binding.tensor.dtype;
  const auto leads = [](DType from, DType to) { return from == to || can_cast(from, to); };
  if (!binding.changes.empty()) return leads(stored, DType::f32) && leads(DType::f32, dtype);
  return stored == dtype || ((has_form || stored == DType::f16) && can_cast(stored, dtype));
}

}  // namespace

WeightBinding bind_weight(const Checkpoint& checkpoint, const TensorSpec& tensor, const StoredFormOf& stored_as) {
  const std::optional<StoredForm> form = stored_as ? stored_as(tensor.name) : std::nullopt;
  const std::string& name = form ? form->tensor : tensor.name;
  const Checkpoint::Location location = checkpoint.locate(name);
  if (location.file == nullptr)
    fail(ErrorCode::not_found, "{} lacks tensor '{}' ({} {})", checkpoint.path().string(), name,
         to_string(tensor.dtype), to_string(tensor.shape));
  WeightBinding binding{tensor, location.file, *location.tensor, std::nullopt, false, {}};
  if (form) {
    binding.rows = form->rows;
    binding.transposed = form->transposed;
    binding.changes = form->changes;
    expects(!(binding.rows && binding.transposed), "tensor {} is stored both regrouped and transposed", tensor.name);
  }
  const DType stored = binding.stored.spec.dtype;
  if (!agrees(binding) || !casts_agree(binding, form.has_value()))
    fail(ErrorCode::incompatible, "{}: tensor {} is {} {}; {} {} is expected", location.file->path().string(),
         excerpt(name), to_string(stored), to_string(binding.stored.spec.shape),
         form ? fmt::format("'{}' as {}", tensor.name, to_string(tensor.dtype)) : to_string(tensor.dtype),
         to_string(tensor.shape));
  return binding;
}

void pack_weight(const WeightBinding& binding, std::size_t offset_bytes, std::span<std::byte> destination) {
  if (destination.empty()) return;
  const std::size_t element_bytes = size_of(binding.tensor.dtype);
  const std::size_t size_bytes = binding.tensor.size_bytes();
  expects(offset_bytes % element_bytes == 0 && destination.size() % element_bytes == 0 && offset_bytes <= size_bytes &&
              destination.size() <= size_bytes - offset_bytes,
          "bytes [{}, +{}) of tensor {} of {} bytes", offset_bytes, destination.size(), binding.tensor.name,
          size_bytes);
  const auto first_element = static_cast<std::int64_t>(offset_bytes / element_bytes);
  if (binding.changes.empty())
    pack_unchanged(binding, first_element, destination);
  else
    pack_changed(binding, first_element, destination);
  binding.file->file().check_unchanged();
}

void read_ahead(const WeightBinding& binding, std::size_t offset_bytes, std::size_t size_bytes) noexcept {
  const std::size_t element_bytes = size_of(binding.tensor.dtype);
  const std::size_t stored_element_bytes = size_of(binding.stored.spec.dtype);
  if (binding.is_in_order())
    binding.file->file().read_ahead(binding.stored.offset_bytes + offset_bytes / element_bytes * stored_element_bytes,
                                    size_bytes / element_bytes * stored_element_bytes);
  else
    binding.file->file().read_ahead(binding.stored.offset_bytes, binding.stored.size_bytes);
}

}  // namespace lamina
