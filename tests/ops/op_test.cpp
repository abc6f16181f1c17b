#include "op_test.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "lamina/error.h"
#include "ops/bf16.h"

namespace lamina::testing {

namespace {

/// Calls visit(byte offset from the first element) for each element, in row-major order.
template <typename Visit>
void for_each_element(const ConstTensorView& view, Visit visit) {
  std::array<std::int64_t, Shape::kMaxRank> index{};
  for (std::int64_t left = view.shape().elements(); left > 0; --left) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < view.rank(); ++axis) offset += index[axis] * view.stride(axis);
    visit(static_cast<std::size_t>(offset) * size_of(view.dtype()));
    for (std::size_t axis = view.rank(); axis-- > 0;) {
      if (++index[axis] < view.size(axis)) break;
      index[axis] = 0;
    }
  }
}

double load(DType dtype, const std::byte* from) {
  if (dtype == DType::bf16) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof bits);
    return ops::widen(bits);
  }
  float value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void store(DType dtype, double value, std::byte* to) {
  if (dtype == DType::bf16) {
    const std::uint16_t bits = ops::narrow(static_cast<float>(value));
    std::memcpy(to, &bits, sizeof bits);
    return;
  }
  const auto narrowed = static_cast<float>(value);
  std::memcpy(to, &narrowed, sizeof narrowed);
}

TensorView within(TensorView whole, const Shape& shape) {
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t before = (whole.size(axis) - shape[axis]) / 2;
    whole = whole.slice(axis, before, before + shape[axis]);
  }
  return whole;
}

Shape widened(const Shape& shape, const Shape& gaps) {
  std::vector<std::int64_t> extents(shape.extents().begin(), shape.extents().end());
  for (std::size_t axis = 0; axis < gaps.rank(); ++axis) extents[axis] += gaps[axis];
  return Shape(extents);
}

}  // namespace

Tensor OpTest::tensor(DType dtype, const Shape& shape, const Values& values, const Shape& gaps) {
  const TensorView measured(nullptr, dtype, widened(shape, gaps));
  Storage& storage = storages_.emplace_back();
  storage.buffer = device_->allocate(measured.span_bytes(), "tensor");
  storage.whole = TensorView(storage.buffer.data(), dtype, measured.shape());
  storage.view = within(storage.whole, shape);
  storage.initial.assign(measured.span_bytes(), std::byte{0xFF});  // NaN in bf16 and f32

  Tensor result{storage.view, {}};
  std::byte* first = storage.initial.data() + (storage.view.data() - storage.whole.data());
  auto value = values.begin();
  for_each_element(storage.view, [&](std::size_t offset) {
    store(dtype, *value++, first + offset);
    result.values.push_back(load(dtype, first + offset));
  });
  stream_->copy_to_device_async(storage.buffer.data(), storage.initial.data(), storage.initial.size(), "upload");
  stream_->synchronize();
  return result;
}

Tensor OpTest::random(DType dtype, const Shape& shape, const Shape& gaps, double mean, double deviation) {
  std::normal_distribution<double> distribution(mean, deviation);
  Values values(static_cast<std::size_t>(shape.elements()));
  std::generate(values.begin(), values.end(), [&] { return distribution(engine_); });
  return tensor(dtype, shape, values, gaps);
}

Tensor OpTest::blank(const Shape& shape, const Shape& gaps, DType dtype) {
  return tensor(dtype, shape, Values(static_cast<std::size_t>(shape.elements()), std::nan("")), gaps);
}

Tensor OpTest::another(const Tensor& original, const Shape& gaps) {
  return tensor(original.view.dtype(), original.view.shape(), original.values, gaps);
}

void OpTest::run(const std::vector<Tensor>& tensors, const Operation& operation) {
  std::vector<TensorView> views;
  std::vector<TensorView> without_data;
  for (const Tensor& each : tensors) {
    views.push_back(each.view);
    without_data.emplace_back(nullptr, each.view.dtype(), each.view.shape());
  }
  ops::OpContext shapes_only = ops::OpContext::planning(*stream_);
  EXPECT_NO_THROW(operation(shapes_only, without_data));
  ops::OpContext planning = ops::OpContext::planning(*stream_);
  operation(planning, views);

  const DeviceBuffer workspace = device_->allocate(std::max<std::size_t>(planning.peak_bytes(), 1), "workspace");
  ops::OpContext context(*stream_, workspace.data(), planning.peak_bytes());
  for (const Tensor& each : tensors) expect_announced(each, [&] { operation(context, views); });
  operation(context, views);
  stream_->synchronize();
  EXPECT_EQ(context.peak_bytes(), planning.peak_bytes());
}

/// Another stream writes the operand (the bytes it holds anyway), nobody waits: launching must be refused.
void OpTest::expect_announced(const Tensor& tensor, const std::function<void()>& launch) {
  const MemoryRange range = range_of(tensor.view);
  const std::vector<std::byte> same = fetch(range.begin, range.size_bytes);
  device_->order().watch(range, "the operand");
  other_stream_->copy_to_device_async(tensor.view.data(), same.data(), same.size(), "unordered write");
  try {
    launch();
    ADD_FAILURE() << "the operation does not name its operand " << to_string(tensor.view.shape());
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), ::testing::HasSubstr("unordered write"));
  }
  other_stream_->synchronize();
  stream_->synchronize();
  device_->order().unwatch(range);
}

Values OpTest::read(const Tensor& tensor) {
  const auto storage = std::find_if(storages_.begin(), storages_.end(),
                                    [&](const Storage& each) { return each.view.data() == tensor.view.data(); });
  expects(storage != storages_.end(), "read of a tensor that this test did not make");
  const std::vector<std::byte> now = fetch(storage->whole.data(), storage->whole.span_bytes());
  expect_gaps_untouched(*storage, now);
  const std::byte* first = now.data() + (storage->view.data() - storage->whole.data());
  Values values;
  for_each_element(tensor.view,
                   [&](std::size_t offset) { values.push_back(load(tensor.view.dtype(), first + offset)); });
  return values;
}

std::vector<std::byte> OpTest::fetch(const std::byte* device_data, std::size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  stream_->copy_to_host_async(bytes.data(), device_data, size_bytes, "fetch");
  stream_->synchronize();
  return bytes;
}

void OpTest::expect_gaps_untouched(const Storage& storage, const std::vector<std::byte>& now) {
  std::vector<std::byte> gaps = now;
  std::vector<std::byte> expected = storage.initial;
  const auto first = static_cast<std::size_t>(storage.view.data() - storage.whole.data());
  for_each_element(storage.view, [&](std::size_t offset) {
    std::fill_n(gaps.begin() + static_cast<std::ptrdiff_t>(first + offset), size_of(storage.view.dtype()), std::byte{});
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(first + offset), size_of(storage.view.dtype()),
                std::byte{});
  });
  EXPECT_TRUE(gaps == expected) << "an operation wrote outside of its operand " << to_string(storage.view.shape());
}

void OpTest::expect_close(const Values& actual, const Values& expected) const {
  ASSERT_EQ(actual.size(), expected.size());
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  ASSERT_GT(norm, 0);
  EXPECT_LE(std::sqrt(difference / norm), GetParam().tolerance);  // false for NaN
}

void OpTest::plan(const std::function<void(ops::OpContext&)>& operation) {
  ops::OpContext context = ops::OpContext::planning(*stream_);
  operation(context);
}

}  // namespace lamina::testing
