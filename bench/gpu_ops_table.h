#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "device/device.h"
#include "device/event.h"
#include "device/stream.h"
#include "ops/op_context.h"
#include "tensor/arena.h"

/// What the benchmarks of operations on a GPU share.
namespace lamina::bench {

/// Device tensors of small random values. `renew` makes room for those of the next line.
class Tensors {
 public:
  explicit Tensors(Device& device);

  void renew() { arena_ = whole(); }
  TensorView bf16(const Shape& shape) { return arena_.take(DType::bf16, shape); }
  TensorView f32(const Shape& shape) { return arena_.take(DType::f32, shape); }
  TensorView f64(const Shape& shape) { return arena_.take(DType::f64, shape); }
  /// Tensors of one shape, enough of them that a cache of 50 MiB holds none until its next turn.
  std::vector<TensorView> turns(const Shape& shape, std::size_t least_bytes = 256 * kMiB);

 private:
  static constexpr std::size_t kBytes = 8 * kGiB;
  static constexpr std::size_t kPieceBytes = 16 * kMiB;

  Arena whole() { return {buffer_.data(), kBytes}; }

  std::unique_ptr<Stream> stream_;
  DeviceBuffer buffer_;
  Arena arena_;
};

/// An operation to be timed; `call` counts its calls, for those who take turns among their operands.
struct Line {
  std::string name;
  double flop;
  std::vector<ConstTensorView> operands;
  std::function<void(ops::OpContext&, std::size_t call)> run;
};

Line linear(Tensors& tensors, std::string_view name, std::int64_t rows, std::int64_t in, std::int64_t out);
/// A copy on the device, which moves as many bytes as it can.
Line copy(Tensors& tensors, const Shape& shape);

/// Prints a line for each operation whose name contains `words`; `cuda_ops_bench.cpp` says what the columns are.
class Table {
 public:
  Table(Device& device, std::string_view words)
      : device_(device),
        stream_(device.create_stream("compute")),
        begin_(device.create_event("begin")),
        end_(device.create_event("end")),
        words_(words) {}

  void measure_ceilings(Tensors& tensors);
  void add(const Line& line);

 private:
  struct Measured {
    double seconds;
    std::size_t scratch_bytes;
  };

  Measured measure(const Line& line);
  double series_seconds(const Line& line, ops::OpContext& context, int calls);

  static constexpr int kSeries = 9;
  static constexpr double kSeriesSeconds = 5e-3;

  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> begin_;
  std::unique_ptr<Event> end_;
  std::string_view words_;
  double flop_per_second_ = 0;
  double bytes_per_second_ = 0;
};

}  // namespace lamina::bench
