#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "device/device.h"

namespace lamina {

/// Bytes/s from pinned memory to the device: the median of some copies of `size_bytes`. `start` is called when all is
/// set up, before the first copy.
double measure_link(Device& device, std::size_t size_bytes, const std::function<void()>& start = {});

/// The same for the devices of so many ranks, which copy at the same time, each from a thread of its own.
std::vector<double> measure_links(const std::function<std::unique_ptr<Device>(std::size_t rank)>& create_device,
                                  std::size_t ranks, std::size_t size_bytes);

}  // namespace lamina
